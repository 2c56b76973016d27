"""How gateways and the index process find each other, whoever of them was forked last.

Problem: either side may die and be forked anew, and sockets that were made before a fork belong to those who died.
Idea: one pair of datagram sockets, made by the supervisor and inherited by all.  A gateway makes a pair of stream
sockets of its own and sends one end through it; whoever is the index process now, or will be next, takes it out.
Trade-off: the queue is short, so a gateway may have to try again.
Invariant: an end that nobody took out is still there for the next index process; nothing has a name in the file system.
"""

import asyncio
import contextlib
import socket
from collections.abc import Callable
from typing import Final

_RETRY_S: Final = 0.05
_WORD: Final = b"."


class Rendezvous:
    """Make it before forking."""

    def __init__(self) -> None:
        self._inner, self._outer = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        for end in (self._inner, self._outer):
            end.settimeout(0)

    async def connect(self) -> socket.socket:
        """Return a gateway's end of a new pair; the other one is under way."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        ours.settimeout(0)
        with theirs:
            while not self._offer(theirs):  # noqa: ASYNC110 - a queue between processes has no event
                await asyncio.sleep(_RETRY_S)
        return ours

    def listen(self, arrived: Callable[[socket.socket], object]) -> None:
        """Take out what gateways send, on the running loop."""
        asyncio.get_running_loop().add_reader(self._inner.fileno(), self._accept, arrived)

    def stop(self) -> None:
        asyncio.get_running_loop().remove_reader(self._inner.fileno())

    def _offer(self, end: socket.socket) -> bool:
        try:
            socket.send_fds(self._outer, [_WORD], [end.fileno()])
        except BlockingIOError:
            return False
        return True

    def _accept(self, arrived: Callable[[socket.socket], object]) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                _, ends, _, _ = socket.recv_fds(self._inner, len(_WORD), 1)
                for number in ends:
                    end = socket.socket(fileno=number)
                    end.settimeout(0)
                    arrived(end)
