"""The gRPC server of the endpoint picker: ext_proc and the health services that its protocol names."""

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import grpc

from inferplane_api.proto import ext_proc_pb2 as pb
from inferplane_router.extproc.picker import Picker

# The library has no types.
_health: Any = import_module("grpc_health.v1.health")
_health_messages: Any = import_module("grpc_health.v1.health_pb2")
_health_calls: Any = import_module("grpc_health.v1.health_pb2_grpc")

SERVICE: Final = "envoy.service.ext_proc.v3.ExternalProcessor"
LIVENESS: Final = "liveness"
READINESS: Final = "readiness"
_MAX_MESSAGE: Final = 64 * 1024 * 1024
_OPTIONS: Final = (
    ("grpc.max_receive_message_length", _MAX_MESSAGE),
    ("grpc.max_send_message_length", _MAX_MESSAGE),
    ("grpc.max_concurrent_streams", 100_000),
)


@dataclass(frozen=True, slots=True)
class Certificate:
    """A server's certificate chain and its key, PEM files; read again for every connection, since they are renewed."""

    chain: Path
    key: Path

    def credentials(self) -> grpc.ServerCredentials:
        """Read both; a file that cannot be read is an OSError."""
        return grpc.dynamic_ssl_server_credentials(self._read(), self._read)

    def _read(self) -> Any:
        return grpc.ssl_server_certificate_configuration([(self.key.read_bytes(), self.chain.read_bytes())])


class PickerServer:
    """Serves a `Picker`."""

    def __init__(self, picker: Picker, *, reuse_port: bool = False) -> None:
        self._health = _health.aio.HealthServicer()
        self._server = grpc.aio.server(options=(*_OPTIONS, ("grpc.so_reuseport", int(reuse_port))))
        process = grpc.stream_stream_rpc_method_handler(
            picker.process,
            request_deserializer=pb.ProcessingRequest.FromString,
            response_serializer=pb.ProcessingResponse.SerializeToString,
        )
        handlers = grpc.method_handlers_generic_handler(SERVICE, {"Process": process})
        self._server.add_generic_rpc_handlers((handlers,))
        _health_calls.add_HealthServicer_to_server(self._health, self._server)

    async def start(self, address: str, certificate: Certificate | None = None) -> int:
        """Listen on host:port; return the port."""
        try:
            if certificate is None:
                port = self._server.add_insecure_port(address)
            else:
                port = self._server.add_secure_port(address, certificate.credentials())
        except RuntimeError as error:
            raise OSError(f"listen.extProc: {address} cannot be used: {error}") from error
        await self._health.set(LIVENESS, _health_messages.HealthCheckResponse.SERVING)
        await self.serving(yes=False)
        await self._server.start()
        return port

    async def serving(self, *, yes: bool) -> None:
        """Say in the health service whether picks are welcome."""
        statuses = _health_messages.HealthCheckResponse
        for name in ("", SERVICE, READINESS):
            await self._health.set(name, statuses.SERVING if yes else statuses.NOT_SERVING)

    async def stop(self, grace_s: float) -> None:
        """Finish the streams that run."""
        await self.serving(yes=False)
        await self._server.stop(grace_s)
