"""One call to somebody else over a connection of its own, without I/O: bytes in, messages out, and the other way.

Problem: a router hears several words of every request from the request's agent.  gRPC's client for asyncio takes a
thread, a task and two wake-ups for each, several times what the word itself costs to take in.
Idea: a message that is complete is handed over at once, by a call; a connection carries one call, so that there is no
table of calls, no choice of who is sent next, and its end is the call's.
Trade-off: two calls to one agent are two connections; messages are not compressed, and headers use no table of ours.
Invariants: `ended` is called once, and nothing after it; what the other end does not take yet waits, in order, and
`waiting` says how much of it; every byte that comes is credited again, on the connection and on the stream.
"""

from collections import deque
from collections.abc import Callable
from typing import ClassVar, Final
from urllib.parse import unquote

from hpack import Decoder, HPACKError

from inferplane_router.rpc import frames
from inferplane_router.rpc.frames import HEAD, HEAD_BYTES, MESSAGE_HEAD, MESSAGE_HEAD_BYTES, PREFACE, Fault, literal

_STREAM: Final = 1
_WINDOW: Final = 16 * 1024 * 1024
_FRAME: Final = 256 * 1024
_LARGEST_MESSAGE: Final = 64 * 1024 * 1024
_BLOCK_BYTES: Final = 64 * 1024
_SETTINGS: Final = frames.settings(
    {frames.HEADER_TABLE_SIZE: 0, frames.INITIAL_WINDOW_SIZE: _WINDOW, frames.MAX_FRAME_SIZE: _FRAME}
) + frames.window_update(0, _WINDOW - frames.DEFAULT_WINDOW)
_OK: Final = b"0"


class _BrokenError(Exception):
    """The other end does not speak the protocol."""


class OutgoingCall:
    """Speaks with one server about one call.

    `write` gets what it is told; `ready` is called at its first word, `message` with each message, and `ended` with why
    the call is over, nothing when it ended well.
    """

    __slots__ = (
        "_block",
        "_connection_window",
        "_decoder",
        "_ended",
        "_largest_frame",
        "_message",
        "_out",
        "_owed",
        "_partial",
        "_queue",
        "_ready",
        "_rest",
        "_stream_window",
        "_their_window",
        "_write",
        "over",
        "waiting",
    )

    def __init__(
        self,
        *,
        write: Callable[[bytes], object],
        ready: Callable[[], object],
        message: Callable[[bytes], object],
        ended: Callable[[str], object],
    ) -> None:
        self._write = write
        self._ready: Callable[[], object] | None = ready
        self._message = message
        self._ended = ended
        self._out: list[bytes] = []
        self._rest = b""
        self._partial = bytearray()
        self._block: tuple[int, bytes] | None = None
        """Flags and beginning of a header block that goes on in the next frame."""
        self._decoder = Decoder(max_header_list_size=_BLOCK_BYTES)
        self._queue: deque[bytes] = deque()
        self._owed = 0
        """Bytes that came and were not credited again."""
        self._connection_window = self._stream_window = self._their_window = frames.DEFAULT_WINDOW
        self._largest_frame = frames.DEFAULT_FRAME
        self.waiting = 0
        """Bytes that the other end does not take yet."""
        self.over = False

    def begin(self, path: str, authority: str) -> None:
        """Greet, and begin the call."""
        fields = (
            (b":method", b"POST"),
            (b":scheme", b"http"),
            (b":path", path.encode()),
            (b":authority", authority.encode()),
            (b"te", b"trailers"),
            (b"content-type", b"application/grpc"),
        )
        block = b"".join([literal(name, value) for name, value in fields])
        self._write(PREFACE + _SETTINGS + frames.headers(_STREAM, block))

    def send(self, message: bytes) -> None:
        """Send one message; after the call's end this does nothing."""
        if self.over:
            return
        whole = MESSAGE_HEAD.pack(0, len(message)) + message
        self._queue.append(whole)
        self.waiting += len(whole)
        self._pump()
        self._flush()

    def receive(self, data: bytes) -> None:
        """Take what came; what `message` raises ends the call, and comes out here."""
        data = self._rest + data if self._rest else data
        try:
            self._rest = data[self._take(data) :]
        except _BrokenError as error:
            self._out.append(frames.go_away(0, Fault.PROTOCOL_ERROR))
            self.lose(str(error))
        self._flush()

    def lose(self, why: str) -> None:
        """End the call from here; again is harmless."""
        if not self.over:
            self.over = True
            self._queue.clear()
            self._ended(why)

    def _flush(self) -> None:
        if self._out:
            written, self._out = self._out, []
            self._write(b"".join(written))

    # Frames.

    def _take(self, data: bytes) -> int:
        """Take whole frames; return where the first one begins that is not whole."""
        at, end = 0, len(data)
        while end - at >= HEAD_BYTES and not self.over:
            head, flags, word = HEAD.unpack_from(data, at)
            start, kind = at + HEAD_BYTES, head & 0xFF
            stop = start + (head >> 8)
            if head >> 8 > _FRAME or (self._ready is not None and kind != frames.SETTINGS):
                raise _BrokenError("what answers does not speak HTTP/2")
            if stop > end:
                break
            taker = self._TAKERS.get(kind)
            if taker is not None:
                taker(self, flags, frames.stream_of(word), data, start, stop)
            at = stop
        return at

    def _settings(self, flags: int, _: int, data: bytes, start: int, stop: int) -> None:
        if flags & frames.ACK:
            return
        if (stop - start) % frames.SETTING.size:
            raise _BrokenError("settings have six bytes each")
        for at in range(start, stop, frames.SETTING.size):
            self._set(*frames.SETTING.unpack_from(data, at))
        self._out.append(frames.frame(frames.SETTINGS, frames.ACK, 0))
        ready, self._ready = self._ready, None
        if ready is not None:
            ready()
        self._pump()

    def _set(self, name: int, value: int) -> None:
        if name == frames.MAX_FRAME_SIZE:
            self._largest_frame = min(max(value, frames.DEFAULT_FRAME), frames.LARGEST_FRAME)
        elif name == frames.INITIAL_WINDOW_SIZE:
            self._stream_window += value - self._their_window
            self._their_window = value

    def _ping(self, flags: int, _: int, data: bytes, start: int, stop: int) -> None:
        if not flags & frames.ACK:
            self._out.append(frames.frame(frames.PING, frames.ACK, 0, data[start:stop]))

    def _window_update(self, _: int, stream: int, data: bytes, start: int, stop: int) -> None:
        if stop - start != frames.WORD.size:
            raise _BrokenError("a window update has four bytes")
        credit = frames.stream_of(frames.WORD.unpack_from(data, start)[0])
        if not stream:
            self._connection_window += credit
        elif stream == _STREAM:
            self._stream_window += credit
        self._pump()

    def _headers(self, flags: int, stream: int, data: bytes, start: int, stop: int) -> None:
        if stream != _STREAM:
            raise _BrokenError(f"headers came for stream {stream}, which was never opened")
        start, stop = _plain(flags, data, start, stop)
        self._of_block(flags, data[start + 5 * bool(flags & frames.PRIORITY) : stop])

    def _continuation(self, flags: int, _: int, data: bytes, start: int, stop: int) -> None:
        if self._block is None:
            raise _BrokenError("headers go on that never began")
        first, block = self._block
        self._block = None
        self._of_block(first | flags & frames.END_HEADERS, block + data[start:stop])

    def _of_block(self, flags: int, block: bytes) -> None:
        if len(block) > _BLOCK_BYTES:
            raise _BrokenError("a header block is too long")
        if not flags & frames.END_HEADERS:
            self._block = (flags, block)
            return
        try:
            fields = dict(self._decoder.decode(block, raw=True))
        except HPACKError as error:
            raise _BrokenError(f"a header block cannot be read: {error}") from error
        if (status := fields.get(b":status", b"200")) != b"200":
            self.lose(f"HTTP status {status.decode('latin-1')}")
        elif flags & frames.END_STREAM:
            self.lose(_words(fields))

    def _data(self, flags: int, stream: int, data: bytes, start: int, stop: int) -> None:
        if stream != _STREAM:
            raise _BrokenError(f"data came for stream {stream}, which was never opened")
        self._credit(stop - start)
        start, stop = _plain(flags, data, start, stop)
        self._assemble(data, start, stop)
        if flags & frames.END_STREAM:
            self.lose("the call ended without a status")

    def _reset(self, _: int, stream: int, data: bytes, start: int, stop: int) -> None:
        del data, start, stop
        if stream == _STREAM:
            self.lose("the call was reset")

    def _go_away(self, _: int, stream: int, data: bytes, start: int, stop: int) -> None:
        """Follow a server that ends: what it has begun it may still finish."""
        del stream
        if stop - start >= frames.WORD.size and frames.stream_of(frames.WORD.unpack_from(data, start)[0]) < _STREAM:
            self.lose("the server takes no calls any more")

    # Messages.

    def _assemble(self, data: bytes, start: int, stop: int) -> None:
        partial = self._partial
        if not partial and stop - start >= MESSAGE_HEAD_BYTES:
            end = start + MESSAGE_HEAD_BYTES + _size_at(data, start)
            if end == stop:  # nearly always: one message, one frame
                self._message(data[start + MESSAGE_HEAD_BYTES : stop])
                return
        partial += data[start:stop]
        while len(partial) >= MESSAGE_HEAD_BYTES and not self.over:
            end = _size_at(partial, 0) + MESSAGE_HEAD_BYTES
            if len(partial) < end:
                break
            message = bytes(partial[MESSAGE_HEAD_BYTES:end])
            del partial[:end]
            self._message(message)

    def _credit(self, size: int) -> None:
        """Give credit back, in large pieces."""
        self._owed += size
        if self._owed >= _WINDOW // 2:
            self._out += (frames.window_update(0, self._owed), frames.window_update(_STREAM, self._owed))
            self._owed = 0

    def _pump(self) -> None:
        """Send what waits, as far as there is credit."""
        queue = self._queue
        while queue and (room := min(self._stream_window, self._connection_window, self._largest_frame)) > 0:
            piece = queue.popleft()
            if len(piece) > room:
                queue.appendleft(piece[room:])
                piece = piece[:room]
            self._stream_window -= len(piece)
            self._connection_window -= len(piece)
            self.waiting -= len(piece)
            self._out.append(frames.frame(frames.DATA, 0, _STREAM, piece))

    _TAKERS: ClassVar[dict[int, Callable[["OutgoingCall", int, int, bytes, int, int], None]]] = {
        frames.DATA: _data,
        frames.HEADERS: _headers,
        frames.RST_STREAM: _reset,
        frames.SETTINGS: _settings,
        frames.PING: _ping,
        frames.GOAWAY: _go_away,
        frames.WINDOW_UPDATE: _window_update,
        frames.CONTINUATION: _continuation,
    }


def _size_at(data: bytes | bytearray, at: int) -> int:
    compressed, size = MESSAGE_HEAD.unpack_from(data, at)
    if compressed or size > _LARGEST_MESSAGE:
        raise _BrokenError("a message is compressed, or too long")
    return int(size)


def _plain(flags: int, data: bytes, start: int, stop: int) -> tuple[int, int]:
    if not flags & frames.PADDED:
        return start, stop
    start, stop = frames.unpadded(data, start, stop)
    if stop < start:
        raise _BrokenError("a frame is nothing but padding")
    return start, stop


def _words(fields: dict[bytes, bytes]) -> str:
    """Return how a call ended by its last fields; nothing where it ended well."""
    status = fields.get(b"grpc-status", b"missing")
    if status == _OK:
        return ""
    return f"status {status.decode('latin-1')}: {unquote(fields.get(b'grpc-message', b'').decode('latin-1'))}"
