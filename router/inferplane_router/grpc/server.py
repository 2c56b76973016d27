"""The gRPC server: Router, health and reflection."""

from importlib import import_module
from typing import Any, Final

import grpc

from inferplane_api.proto import router_pb2_grpc
from inferplane_router.grpc.servicer import RouterServicer

# Neither library has types.
_health: Any = import_module("grpc_health.v1.health")
_health_messages: Any = import_module("grpc_health.v1.health_pb2")
_health_calls: Any = import_module("grpc_health.v1.health_pb2_grpc")
_reflection: Any = import_module("grpc_reflection.v1alpha.reflection")

SERVICE: Final = "inferplane.v1.Router"
_MAX_MESSAGE: Final = 64 * 1024 * 1024
_OPTIONS: Final = (("grpc.max_receive_message_length", _MAX_MESSAGE),)


class GrpcServer:
    """Serves a `RouterServicer`."""

    def __init__(self, servicer: RouterServicer, *, reuse_port: bool = False) -> None:
        self._health = _health.aio.HealthServicer()
        self._server = grpc.aio.server(options=(*_OPTIONS, ("grpc.so_reuseport", int(reuse_port))))
        generated: Any = router_pb2_grpc
        generated.add_RouterServicer_to_server(_Calls(servicer), self._server)
        _health_calls.add_HealthServicer_to_server(self._health, self._server)
        names = (SERVICE, _health.SERVICE_NAME, _reflection.SERVICE_NAME)
        _reflection.enable_server_reflection(names, self._server)

    async def start(self, address: str) -> int:
        """Listen on host:port; return the port."""
        try:
            port = self._server.add_insecure_port(address)
        except RuntimeError as error:
            raise OSError(f"listen.grpc: {address} cannot be used: {error}") from error
        await self._server.start()
        await self.serving(yes=True)
        return port

    async def serving(self, *, yes: bool) -> None:
        """Say in the health service whether picks are welcome."""
        statuses = _health_messages.HealthCheckResponse
        status = statuses.SERVING if yes else statuses.NOT_SERVING
        for name in ("", SERVICE):
            await self._health.set(name, status)

    async def stop(self, grace_s: float) -> None:
        """Finish the calls that run."""
        await self.serving(yes=False)
        await self._server.stop(grace_s)


class _Calls:
    """gRPC's names for the servicer's methods."""

    def __init__(self, servicer: RouterServicer) -> None:
        self.Pick = servicer.pick
        self.PickStream = servicer.pick_stream
        self.Complete = servicer.complete
        self.Explain = servicer.explain
        self.Observe = servicer.observe
