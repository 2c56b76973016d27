"""gRPC's reflection: what services there are and how their messages look, for people with a command line."""

from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final

from inferplane_router.rpc.call import Call, Method

# The library has no types.
_library: Any = import_module("grpc_reflection.v1alpha.reflection")
_messages: Any = import_module("grpc_reflection.v1alpha.reflection_pb2")

SERVICE: Final[str] = _library.SERVICE_NAME


class Reflection:
    """Answers about services that are registered in this process."""

    def __init__(self, services: Sequence[str]) -> None:
        self._library = _library.ReflectionServicer((*services, SERVICE))

    def methods(self) -> dict[bytes, Method]:
        return {f"/{SERVICE}/ServerReflectionInfo".encode(): lambda call: _Info(call, self._library)}


class _Info:
    def __init__(self, call: Call, library: Any) -> None:
        self._call = call
        self._library = library

    def message(self, data: bytes) -> None:
        question = _messages.ServerReflectionRequest.FromString(data)
        for answer in self._library.ServerReflectionInfo(iter((question,)), None):
            self._call.send(answer.SerializeToString())

    def said_all(self) -> None:
        self._call.finish()

    def gone(self) -> None: ...
