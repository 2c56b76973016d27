"""The gRPC server: Router, health and reflection."""

from inferplane_router.grpc.servicer import SERVICE, RouterServicer
from inferplane_router.rpc import health, reflection
from inferplane_router.rpc.server import RpcServer
from inferplane_runtime.http.client import split_address

__all__ = ["SERVICE", "GrpcServer"]


class GrpcServer:
    """Serves a `RouterServicer`."""

    def __init__(self, servicer: RouterServicer, *, reuse_port: bool = False) -> None:
        self._health = health.Health()
        shown = reflection.Reflection((SERVICE, health.SERVICE))
        self._server = RpcServer(servicer.methods() | self._health.methods() | shown.methods())
        self._reuse_port = reuse_port

    async def start(self, address: str) -> int:
        """Listen on host:port; return the port."""
        await self.serving(yes=True)
        host, port = split_address(address)
        try:
            return await self._server.start(host, port, reuse_port=self._reuse_port)
        except OSError as error:
            raise OSError(f"listen.grpc: {address} cannot be used: {error}") from error

    async def serving(self, *, yes: bool) -> None:
        """Say in the health service whether picks are welcome."""
        for name in ("", SERVICE):
            self._health.set(name, serving=yes)

    async def stop(self, grace_s: float) -> None:
        """Finish the calls that run."""
        await self.serving(yes=False)
        await self._server.stop(grace_s)
