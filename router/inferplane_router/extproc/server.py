"""The gRPC server of the endpoint picker: ext_proc and the health services that its protocol names."""

from typing import Final

from inferplane_router.extproc.picker import SERVICE, Picker
from inferplane_router.rpc.health import Health
from inferplane_router.rpc.server import RpcServer
from inferplane_runtime.certificates import CertificateFiles as Certificate
from inferplane_runtime.certificates import ServedCertificate
from inferplane_runtime.http.client import split_address

LIVENESS: Final = "liveness"
READINESS: Final = "readiness"
__all__ = ["LIVENESS", "READINESS", "SERVICE", "Certificate", "PickerServer"]


class PickerServer:
    """Serves a `Picker`."""

    def __init__(self, picker: Picker, *, reuse_port: bool = False) -> None:
        self._health = Health()
        self._server = RpcServer(picker.methods() | self._health.methods())
        self._reuse_port = reuse_port

    async def start(self, address: str, certificate: Certificate | None = None) -> int:
        """Listen on host:port; return the port."""
        self._health.set(LIVENESS, serving=True)
        await self.serving(yes=False)
        host, port = split_address(address)
        served = None if certificate is None else ServedCertificate(certificate, protocols=("h2",))
        try:
            return await self._server.start(host, port, reuse_port=self._reuse_port, certificate=served)
        except OSError as error:
            raise OSError(f"listen.extProc: {address} cannot be used: {error}") from error

    async def serving(self, *, yes: bool) -> None:
        """Say in the health service whether picks are welcome."""
        for name in ("", SERVICE, READINESS):
            self._health.set(name, serving=yes)

    async def stop(self, grace_s: float) -> None:
        """Finish the calls that run."""
        await self.serving(yes=False)
        await self._server.stop(grace_s)
