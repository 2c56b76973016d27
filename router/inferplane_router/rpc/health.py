"""gRPC's health service: what a prober, or a proxy in front, is told of each service."""

from importlib import import_module
from typing import Any, Final

from inferplane_router.rpc.call import Call, Method
from inferplane_router.rpc.status import CallError, Status

# The library has no types.
_messages: Any = import_module("grpc_health.v1.health_pb2")

SERVICE: Final = "grpc.health.v1.Health"


class Health:
    """States by service, and who watches them."""

    def __init__(self) -> None:
        self._states: dict[str, bytes] = {}
        self._watched: dict[str, set[Call]] = {}

    def set(self, service: str, *, serving: bool) -> None:
        """Say whether a service serves; whoever watches it is told."""
        statuses = _messages.HealthCheckResponse
        status = statuses.SERVING if serving else statuses.NOT_SERVING
        state = _written(status)
        if self._states.get(service) == state:
            return
        self._states[service] = state
        for call in tuple(self._watched.get(service, ())):
            call.send(state)

    def methods(self) -> dict[bytes, Method]:
        return {
            f"/{SERVICE}/Check".encode(): lambda call: _Check(call, self),
            f"/{SERVICE}/Watch".encode(): lambda call: _Watch(call, self),
        }

    def state(self, service: str) -> bytes | None:
        """Return the answer about a service, None about one that is unknown."""
        return self._states.get(service)

    def watch(self, service: str, call: Call) -> None:
        """Tell a caller what is so, and whatever will be."""
        self._watched.setdefault(service, set()).add(call)
        call.send(self._states.get(service) or _written(_messages.HealthCheckResponse.SERVICE_UNKNOWN))

    def leave(self, service: str, call: Call) -> None:
        """Stop telling a caller."""
        watching = self._watched.get(service, set())
        watching.discard(call)
        if not watching:
            self._watched.pop(service, None)


class _Check:
    def __init__(self, call: Call, health: Health) -> None:
        self._call = call
        self._health = health

    def message(self, data: bytes) -> None:
        state = self._health.state(_service_of(data))
        if state is None:
            raise CallError(Status.NOT_FOUND, "the service is unknown")
        self._call.send(state)
        self._call.finish()

    def said_all(self) -> None: ...

    def gone(self) -> None: ...


class _Watch:
    def __init__(self, call: Call, health: Health) -> None:
        self._call = call
        self._health = health
        self._service: str | None = None

    def message(self, data: bytes) -> None:
        if self._service is not None:
            raise CallError(Status.INVALID_ARGUMENT, "one message is asked for")
        self._service = _service_of(data)
        self._health.watch(self._service, self._call)

    def said_all(self) -> None: ...

    def gone(self) -> None:
        if self._service is not None:
            self._health.leave(self._service, self._call)


def _service_of(data: bytes) -> str:
    return str(_messages.HealthCheckRequest.FromString(data).service)


def _written(status: int) -> bytes:
    written: bytes = _messages.HealthCheckResponse(status=status).SerializeToString()
    return written
