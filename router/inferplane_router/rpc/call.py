"""One call: messages out of pieces of a stream, messages into pieces, and its end.

Problem: what a call costs in a gRPC library for asyncio is not its bytes, but tasks, futures, queues and a thread that
wakes up another.  Idea: a message that is complete is handed to its listener at once, by a call, and what the listener
sends is appended to what the connection writes after that.
Trade-off: listeners must not block; whoever has to wait says `hold` and is given the next message after `release`.
Invariants: a listener hears `gone` or has called `finish`, never neither; who does not take what is sent to him is not
listened to (`_CHOKED`), and his credit ends with that.
"""

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

import structlog

from inferplane_router.rpc import frames
from inferplane_router.rpc.frames import ANSWER_FIELDS, MESSAGE_HEAD, MESSAGE_HEAD_BYTES, Fault
from inferplane_router.rpc.status import CallError, Status, trailers

if TYPE_CHECKING:
    from inferplane_router.rpc.connection import Connection

_CHOKED: Final = 1024 * 1024
"""Bytes that may wait for the caller's credit before nothing more is heard from it."""
_log = structlog.get_logger("inferplane.rpc")


class Listener(Protocol):
    """The serving side of one call; what it raises ends the call: `CallError` says how."""

    def message(self, data: bytes, /) -> None: ...

    def said_all(self) -> None:
        """No more messages will come; the call goes on until it is finished."""
        ...

    def gone(self) -> None:
        """Follow the call's end, which came from elsewhere: the caller has gone, or an error was raised here."""
        ...


Method = Callable[["Call"], Listener]
"""Begins to serve a call."""


class Call:
    """Speaks with one caller about one request."""

    __slots__ = (
        "_begun",
        "_connection",
        "_held",
        "_inbox",
        "_last_words",
        "_listener",
        "_owed",
        "_partial",
        "_queue",
        "_said_all",
        "_told",
        "_unsent",
        "over",
        "stream",
        "window",
    )

    def __init__(self, connection: "Connection", stream: int, window: int) -> None:
        self._connection = connection
        self.stream = stream
        self.window = window
        """Bytes that the caller takes."""
        self.over = False
        """It was finished, or the caller has gone."""
        self._listener: Listener | None = None
        self._inbox: deque[bytes] = deque()
        self._partial = bytearray()
        self._held = self._said_all = self._told = self._begun = False
        self._owed = 0
        """Bytes that came and were not credited again."""
        self._queue: deque[bytes] = deque()
        self._unsent = 0
        self._last_words: bytes | None = None

    # For listeners.

    def send(self, message: bytes) -> None:
        """Send one message; after the call's end this does nothing."""
        if self.over:
            return
        connection, size = self._connection, len(message) + MESSAGE_HEAD_BYTES
        if self._queue or size > self.window or size > connection.window or size > connection.largest_frame:
            self._queue_up(message)
            return
        self.window -= size
        connection.window -= size
        self._begin()
        connection.out += (frames.message_head(self.stream, size - MESSAGE_HEAD_BYTES), message)
        connection.flush()

    def finish(self, status: Status = Status.OK, details: str = "") -> None:
        """End the call; again is harmless."""
        if self.over:
            return
        self.over = True
        self._inbox.clear()
        block = trailers(status, details)
        if self._queue:
            self._last_words = block
        else:
            self._end(block)

    def fail(self, error: BaseException) -> None:
        """End the call with what went wrong; what is no `CallError` is for the log alone."""
        if isinstance(error, CallError):
            self._break(error.status, error.details)
            return
        _log.error("a call could not be served", exc_info=error)
        self._break(Status.INTERNAL, "the call could not be served")

    def hold(self) -> None:
        """Deliver no more messages until `release`."""
        self._held = True

    def release(self) -> None:
        self._held = False
        self._deliver()

    # For the connection.

    def listen(self, method: Method) -> None:
        """Begin."""
        try:
            self._listener = method(self)
        except Exception as error:  # noqa: BLE001 - the call's boundary
            self.fail(error)

    def take(self, data: bytes, start: int, stop: int, *, size: int, last: bool) -> None:
        """Take data[start:stop], which came in `size` bytes of the stream's window."""
        self._owed += size
        if self._owed > self._connection.limits.window_bytes:
            self._connection.out.append(frames.reset(self.stream, Fault.FLOW_CONTROL_ERROR))
            self.lose()
            return
        self._said_all = self._said_all or last
        if not self.over:
            self._assemble(data, start, stop)
            self._deliver()
        self._credit()

    def pump(self) -> None:
        """Send what waits, as far as the caller has credit."""
        connection, queue = self._connection, self._queue
        while queue and (room := min(self.window, connection.window, connection.largest_frame)) > 0:
            piece = queue.popleft()
            if len(piece) > room:
                queue.appendleft(piece[room:])
                piece = piece[:room]
            size = len(piece)
            self.window -= size
            connection.window -= size
            self._unsent -= size
            connection.out.append(frames.frame(frames.DATA, 0, self.stream, piece))
        if queue:
            connection.blocked[self.stream] = self
            return
        connection.blocked.pop(self.stream, None)
        if self._last_words is not None:
            self._end(self._last_words)
        else:
            self._deliver()

    def lose(self) -> None:
        """Follow the caller's end, or its connection's."""
        self._connection.forget(self)
        self._queue.clear()
        if not self.over:
            self.over = True
            self._inbox.clear()
            self._tell_gone()

    # Inside.

    def _assemble(self, data: bytes, start: int, stop: int) -> None:
        partial = self._partial
        if not partial and stop - start >= MESSAGE_HEAD_BYTES:
            size = self._size_at(data, start)
            if stop - start == size + MESSAGE_HEAD_BYTES:  # nearly always: one message, one frame
                self._inbox.append(data[start + MESSAGE_HEAD_BYTES : stop])
                return
        partial += data[start:stop]
        while len(partial) >= MESSAGE_HEAD_BYTES and not self.over:
            end = self._size_at(partial, 0) + MESSAGE_HEAD_BYTES
            if len(partial) < end:
                break
            self._inbox.append(bytes(partial[MESSAGE_HEAD_BYTES:end]))
            del partial[:end]

    def _size_at(self, data: bytes | bytearray, at: int) -> int:
        """Return the length of a message; what cannot be taken ends the call."""
        compressed, size = MESSAGE_HEAD.unpack_from(data, at)
        if compressed:
            self._break(Status.UNIMPLEMENTED, "messages must not be compressed")
        elif size > self._connection.limits.message_bytes:
            self._break(
                Status.RESOURCE_EXHAUSTED, f"a message has {self._connection.limits.message_bytes} bytes at most"
            )
        return int(size)

    def _deliver(self) -> None:
        listener, inbox = self._listener, self._inbox
        if listener is None:
            return
        try:
            while inbox and not self._held and self._unsent < _CHOKED:
                listener.message(inbox.popleft())
            if self._said_all and not inbox and not self._held and not self._told and not self.over:
                self._told = True
                if self._partial:
                    self._break(Status.INTERNAL, "the stream ended within a message")
                    return
                listener.said_all()
        except Exception as error:  # noqa: BLE001 - the call's boundary
            self.fail(error)
        self._credit()

    def _credit(self) -> None:
        """Give credit back for what was taken, in large pieces."""
        if self._inbox or self._said_all or self._owed < self._connection.limits.window_bytes // 2:
            return
        self._connection.out.append(frames.window_update(self.stream, self._owed))
        self._owed = 0
        self._connection.flush()

    def _break(self, status: Status, details: str) -> None:
        """End the call in place of its listener."""
        if not self.over:
            self.finish(status, details)
            self._tell_gone()

    def _tell_gone(self) -> None:
        if self._listener is None:
            return
        try:
            self._listener.gone()
        except Exception:  # noqa: BLE001 - the call's boundary
            _log.exception("the end of a call could not be followed")

    def _begin(self) -> None:
        if not self._begun:
            self._begun = True
            self._connection.out.append(frames.headers(self.stream, ANSWER_FIELDS))

    def _queue_up(self, message: bytes) -> None:
        self._begin()
        whole = MESSAGE_HEAD.pack(0, len(message)) + message
        self._queue.append(whole)
        self._unsent += len(whole)
        self.pump()
        self._connection.flush()

    def _end(self, block: bytes) -> None:
        connection = self._connection
        block = block if self._begun else ANSWER_FIELDS + block
        connection.out.append(frames.headers(self.stream, block, last=True))
        if not self._said_all:
            connection.out.append(frames.reset(self.stream, Fault.NO_ERROR))
        connection.forget(self)
        connection.flush()
