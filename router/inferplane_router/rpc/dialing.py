"""The socket of a call to somebody else: made, spoken over, and closed when its block is left.

Invariant: whatever ends the call, an error of whoever takes its messages included, comes out of `over`, once.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Final, cast

from inferplane_router.rpc.outgoing import OutgoingCall
from inferplane_runtime.http.client import split_address

_CONGESTED: Final = 1024 * 1024
"""Bytes that may wait for the other end before it counts as one that does not read."""


_AGAIN_S: Final = 0.1
_LONGEST_S: Final = 0.4
"""Between two attempts to connect.  An agent listens before its Pod can be ready: whoever sees the Pod ready and asks
shall not be told that there is no worker because the next attempt to reach it is a second away."""


class CallFailedError(Exception):
    """The call ended otherwise than well; the message says how, for a person."""


class DialedCall(asyncio.Protocol):
    """One call on a socket of its own; `message` is called from the loop with each message."""

    __slots__ = ("_authority", "_full", "_message", "_path", "_transport", "call", "over", "ready")

    call: OutgoingCall

    def __init__(self, path: str, authority: str, message: Callable[[bytes], object]) -> None:
        loop = asyncio.get_running_loop()
        self._path, self._authority = path, authority
        self._message = message
        self._full = False
        self._transport: asyncio.Transport | None = None
        self.ready: asyncio.Future[None] = loop.create_future()
        """The other end has said its first word."""
        self.over: asyncio.Future[None] = loop.create_future()
        """The call ended; its result is why not, where it did not end well."""

    @property
    def congested(self) -> bool:
        """The other end takes less than it is sent."""
        return self._full or self.call.waiting > _CONGESTED

    def send(self, message: bytes) -> None:
        self.call.send(message)

    def hang_up(self, why: str = "") -> None:
        """End the call, and the connection with it; without a reason it has ended well."""
        if self._transport is not None:
            self.call.lose(why)
            self._transport.close()

    # Called by the loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = made = cast("asyncio.Transport", transport)
        self.call = OutgoingCall(write=made.write, ready=self._is_ready, message=self._message, ended=self._is_over)
        self.call.begin(self._path, self._authority)

    def data_received(self, data: bytes) -> None:
        try:
            self.call.receive(data)
        except Exception as error:  # noqa: BLE001 - the callback's boundary: it is raised where the call is waited for
            if not self.over.done():
                self.over.set_exception(error)
        if self.over.done() and self._transport is not None:
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self.call.lose(f"the connection ended: {exc}" if exc else "the connection ended")

    def pause_writing(self) -> None:
        self._full = True

    def resume_writing(self) -> None:
        self._full = False

    # Inside.

    def _is_ready(self) -> None:
        if not self.ready.done():
            self.ready.set_result(None)

    def _is_over(self, why: str) -> None:
        for future in (self.ready, self.over):
            if not future.done() and why:
                future.set_exception(CallFailedError(why))
                future.exception()  # whoever does not wait for it need not hear of it
            elif not future.done():
                future.set_result(None)


@asynccontextmanager
async def dialed(
    path: str, address: str, message: Callable[[bytes], object], *, timeout_s: float
) -> AsyncGenerator[DialedCall]:
    """Begin a call to host:port; raises TimeoutError and CallFailedError."""
    call = DialedCall(path, address, message)
    try:
        async with asyncio.timeout(timeout_s):
            await _connect(call, address)
            await call.ready
        yield call
    finally:
        call.hang_up()


async def _connect(call: DialedCall, address: str) -> None:
    """Connect, as soon as somebody listens there."""
    try:
        host, port = split_address(address)
    except ValueError as error:
        raise CallFailedError(str(error)) from error
    loop, again_s = asyncio.get_running_loop(), _AGAIN_S
    while True:
        try:
            await loop.create_connection(lambda: call, host, port)
        except OSError:
            await asyncio.sleep(again_s)
            again_s = min(2 * again_s, _LONGEST_S)
        else:
            return
