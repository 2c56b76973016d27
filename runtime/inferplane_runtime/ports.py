"""Ports that nobody else can take between choosing and using them.

The kernel chooses (bind to port 0) and the socket stays bound, but does not listen.  Whoever the port is meant for may
then bind it as well, since both set SO_REUSEADDR and neither listens yet; a third party asking for any free port is
never given it.  Invariant: a held port is not handed out twice.
"""

import socket
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self


@dataclass(frozen=True, slots=True)
class HeldPort:
    """A port that is reserved until `release`, or served on `sock`."""

    host: str
    number: int
    sock: socket.socket = field(repr=False, compare=False)

    def release(self) -> None:
        """Let go, once its user listens."""
        self.sock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def hold_port(host: str = "127.0.0.1", port: int = 0) -> HeldPort:
    """Reserve `port`, or any free one for 0; a port in use is an OSError that names it."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
    except OSError as error:
        sock.close()
        raise OSError(error.errno, f"port {port} on {host} cannot be used: {error.strerror}") from error
    return HeldPort(host, int(sock.getsockname()[1]), sock)
