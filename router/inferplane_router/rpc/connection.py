"""One HTTP/2 connection of callers, without I/O: bytes in, calls to methods, bytes out.

Problem: a connection carries any number of calls, and its bytes come in pieces of any length.
Idea: whole frames are taken one by one; what they cause is appended to `out`, which is written once, after the last
frame of what came.  Header blocks are looked up before they are read: a proxy's are equal, byte by byte, and since we
ask callers to keep no table, equal blocks mean equal headers.
Trade-off: what no caller of gRPC does (priorities, server push, compressed messages) is ignored or refused.
Invariant: every byte of a caller's is credited to the connection at once and to its stream when it was taken, so
one call that is held stops nobody else's.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from hpack import Decoder, HPACKError

from inferplane_router.rpc import frames
from inferplane_router.rpc.call import Call, Method
from inferplane_router.rpc.frames import HEAD, HEAD_BYTES, PREFACE, Fault
from inferplane_router.rpc.status import Status

_BLOCK_BYTES: Final = 64 * 1024
_BLOCKS_KEPT: Final = 256
_KEPT_BYTES: Final = 1024
_GRPC: Final = b"application/grpc"
_UNSUPPORTED_MEDIA: Final = frames.literal(b":status", b"415")


@dataclass(frozen=True, slots=True)
class RpcLimits:
    """What a caller may cost."""

    streams: int = 100_000
    """Calls at once on a connection."""
    window_bytes: int = 1024 * 1024
    """Bytes of a call that may come before they are taken."""
    connection_bytes: int = 16 * 1024 * 1024
    frame_bytes: int = 256 * 1024
    message_bytes: int = 64 * 1024 * 1024


class ProtocolError(Exception):
    """The other end breaks the protocol: the connection ends."""

    def __init__(self, fault: Fault, words: str) -> None:
        super().__init__(words)
        self.fault = fault


class Connection:
    """Takes what one caller writes; `write` gets what it is told, `close` is called when all has been said."""

    __slots__ = (
        "_block",
        "_blocks",
        "_busy",
        "_calls",
        "_close",
        "_decoder",
        "_greeted",
        "_last",
        "_leaving",
        "_methods",
        "_owed",
        "_rest",
        "_stream_window",
        "_write",
        "blocked",
        "largest_frame",
        "limits",
        "out",
        "window",
    )

    def __init__(
        self,
        methods: Mapping[bytes, Method],
        *,
        limits: RpcLimits,
        write: Callable[[bytes], object],
        close: Callable[[], object],
    ) -> None:
        self._methods = methods
        self.limits = limits
        self._write = write
        self._close = close
        self.out: list[bytes] = []
        """What is to be written next."""
        self.window = frames.DEFAULT_WINDOW
        """Bytes that the other end takes, over all calls."""
        self.largest_frame = frames.DEFAULT_FRAME
        self.blocked: dict[int, Call] = {}
        """Calls that have more to send than the other end takes."""
        self._stream_window = frames.DEFAULT_WINDOW
        self._calls: dict[int, Call] = {}
        self._decoder = Decoder(max_header_list_size=_BLOCK_BYTES)
        self._blocks: dict[bytes, bytes | None] = {}
        """Paths by header block, None for what is no gRPC; only of blocks that no table is needed for."""
        self._block: tuple[int, int, bytes] | None = None
        """Stream, flags and beginning of a block that goes on in the next frame."""
        self._rest = b""
        self._greeted = self._busy = self._leaving = False
        self._last = 0
        self._owed = 0

    def begin(self) -> None:
        """Say what the other end may do."""
        limits = self.limits
        self.out.append(
            frames.settings(
                {
                    frames.HEADER_TABLE_SIZE: 0,
                    frames.MAX_CONCURRENT_STREAMS: limits.streams,
                    frames.INITIAL_WINDOW_SIZE: limits.window_bytes,
                    frames.MAX_FRAME_SIZE: limits.frame_bytes,
                    frames.MAX_HEADER_LIST_SIZE: _BLOCK_BYTES,
                }
            )
        )
        self.out.append(frames.window_update(0, limits.connection_bytes - frames.DEFAULT_WINDOW))
        self.flush()

    def receive(self, data: bytes) -> None:
        """Take what came."""
        if self._rest:
            data = self._rest + data
        self._busy = True
        try:
            self._rest = data[self._take(data) :]
        except ProtocolError as error:
            self._fail(error)
        finally:
            self._busy = False
        self.flush()

    def flush(self) -> None:
        """Write what is to be written, unless more of it is about to come."""
        if self.out and not self._busy:
            written, self.out = self.out, []
            self._write(b"".join(written))
        if self._leaving and not self._calls and not self._busy:
            self._close()

    def leave(self) -> None:
        """Take no more calls, and close when those under way have ended."""
        if not self._leaving:
            self._leaving = True
            self.out.append(frames.go_away(self._last, Fault.NO_ERROR))
            self.flush()

    def lost(self) -> None:
        """Follow the loss of the connection."""
        self._leaving = True
        self._write = _nowhere
        for call in tuple(self._calls.values()):
            call.lose()

    def forget(self, call: Call) -> None:
        """Follow a call's end."""
        self._calls.pop(call.stream, None)
        self.blocked.pop(call.stream, None)

    # Frames.

    def _take(self, data: bytes) -> int:
        """Take whole frames; return where the first one begins that is not whole."""
        at, end = 0, len(data)
        if not self._greeted:
            if not data.startswith(PREFACE[:end]):
                raise ProtocolError(Fault.PROTOCOL_ERROR, "this is not HTTP/2")
            if end < len(PREFACE):
                return 0
            self._greeted, at = True, len(PREFACE)
        while end - at >= HEAD_BYTES:
            head, flags, word = HEAD.unpack_from(data, at)
            start, kind = at + HEAD_BYTES, head & 0xFF
            stop = start + (head >> 8)
            if head >> 8 > self.limits.frame_bytes:
                raise ProtocolError(Fault.FRAME_SIZE_ERROR, "a frame is too long")
            if stop > end:
                break
            if self._block is not None and kind != frames.CONTINUATION:
                raise ProtocolError(Fault.PROTOCOL_ERROR, "a header block was interrupted")
            taker = self._TAKERS.get(kind)
            if taker is not None:
                taker(self, flags, frames.stream_of(word), data, start, stop)
            at = stop
        return at

    def _data(self, flags: int, stream: int, data: bytes, start: int, stop: int) -> None:
        size = stop - start
        self._owed += size
        if self._owed >= self.limits.connection_bytes // 2:
            self.out.append(frames.window_update(0, self._owed))
            self._owed = 0
        if flags & frames.PADDED:
            start, stop = _unpadded(data, start, stop)
        call = self._calls.get(stream)
        if call is not None:
            call.take(data, start, stop, size=size, last=bool(flags & frames.END_STREAM))
        elif not stream or stream > self._last:
            raise ProtocolError(Fault.PROTOCOL_ERROR, f"data came for stream {stream}, which was never opened")

    def _headers(self, flags: int, stream: int, data: bytes, start: int, stop: int) -> None:
        if not stream & 1:
            raise ProtocolError(Fault.PROTOCOL_ERROR, f"a caller cannot open stream {stream}")
        if flags & frames.PADDED:
            start, stop = _unpadded(data, start, stop)
        if flags & frames.PRIORITY:
            start += 5
            if start > stop:
                raise ProtocolError(Fault.FRAME_SIZE_ERROR, "headers with a priority are too short")
        self._of_block(stream, flags, data[start:stop])

    def _continuation(self, flags: int, stream: int, data: bytes, start: int, stop: int) -> None:
        if self._block is None or self._block[0] != stream:
            raise ProtocolError(Fault.PROTOCOL_ERROR, "headers go on that never began")
        _, first, block = self._block
        self._block = None
        self._of_block(stream, first | flags & frames.END_HEADERS, block + data[start:stop])

    def _of_block(self, stream: int, flags: int, block: bytes) -> None:
        if len(block) > _BLOCK_BYTES:
            raise ProtocolError(Fault.ENHANCE_YOUR_CALM, "a header block is too long")
        if not flags & frames.END_HEADERS:
            self._block = (stream, flags, block)
            return
        path = self._path_of(block)
        call = self._calls.get(stream)
        if call is not None:  # a caller's trailers
            call.take(b"", 0, 0, size=0, last=True)
        elif stream > self._last:
            self._last = stream
            self._open(stream, path, last=bool(flags & frames.END_STREAM))

    def _path_of(self, block: bytes) -> bytes | None:
        """Return what a block asks for, None when that is no call."""
        known = self._blocks.get(block, b"")
        if known != b"":
            return known
        before = self._decoder.header_table_size
        try:
            fields = dict(self._decoder.decode(block, raw=True))
        except HPACKError as error:
            raise ProtocolError(Fault.COMPRESSION_ERROR, f"a header block cannot be read: {error}") from error
        grpc = fields.get(b":method") == b"POST" and fields.get(b"content-type", b"").startswith(_GRPC)
        path = fields.get(b":path", b"/") if grpc else None
        if len(block) <= _KEPT_BYTES and not before and not self._decoder.header_table_size:
            if len(self._blocks) >= _BLOCKS_KEPT:
                self._blocks.clear()
            self._blocks[block] = path
        return path

    def _open(self, stream: int, path: bytes | None, *, last: bool) -> None:
        if self._leaving or len(self._calls) >= self.limits.streams:
            self.out.append(frames.reset(stream, Fault.REFUSED_STREAM))
            return
        if path is None:
            self.out.append(frames.headers(stream, _UNSUPPORTED_MEDIA, last=True))
            if not last:
                self.out.append(frames.reset(stream, Fault.NO_ERROR))
            return
        call = self._calls[stream] = Call(self, stream, self._stream_window)
        method = self._methods.get(path)
        if method is not None:
            call.listen(method)
        if last:
            call.take(b"", 0, 0, size=0, last=True)
        if method is None:
            call.finish(Status.UNIMPLEMENTED, f"there is no method {path.decode('latin-1')}")

    def _reset(self, _: int, stream: int, __: bytes, start: int, stop: int) -> None:
        if stop - start != frames.WORD.size:
            raise ProtocolError(Fault.FRAME_SIZE_ERROR, "a reset has four bytes")
        if not stream or stream > self._last:
            raise ProtocolError(Fault.PROTOCOL_ERROR, f"stream {stream} ended, which was never opened")
        if (call := self._calls.get(stream)) is not None:
            call.lose()

    def _settings(self, flags: int, stream: int, data: bytes, start: int, stop: int) -> None:
        if stream or (stop - start) % frames.SETTING.size:
            raise ProtocolError(Fault.FRAME_SIZE_ERROR, "settings have six bytes each, and no stream")
        if flags & frames.ACK:
            return
        for at in range(start, stop, frames.SETTING.size):
            name, value = frames.SETTING.unpack_from(data, at)
            self._set(name, value)
        self.out.append(frames.frame(frames.SETTINGS, frames.ACK, 0))
        self._pump()

    def _set(self, name: int, value: int) -> None:
        if name == frames.MAX_FRAME_SIZE:
            if not frames.DEFAULT_FRAME <= value <= frames.LARGEST_FRAME:
                raise ProtocolError(Fault.PROTOCOL_ERROR, f"no frame size: {value}")
            self.largest_frame = value
        elif name == frames.INITIAL_WINDOW_SIZE:
            if value > frames.LARGEST_WINDOW:
                raise ProtocolError(Fault.FLOW_CONTROL_ERROR, f"no window: {value}")
            for call in self._calls.values():
                call.window += value - self._stream_window
            self._stream_window = value

    def _ping(self, flags: int, _: int, data: bytes, start: int, stop: int) -> None:
        if stop - start != 8:  # noqa: PLR2004 - HTTP/2
            raise ProtocolError(Fault.FRAME_SIZE_ERROR, "a ping has eight bytes")
        if not flags & frames.ACK:
            self.out.append(frames.frame(frames.PING, frames.ACK, 0, data[start:stop]))

    def _window_update(self, _: int, stream: int, data: bytes, start: int, stop: int) -> None:
        if stop - start != frames.WORD.size:
            raise ProtocolError(Fault.FRAME_SIZE_ERROR, "a window update has four bytes")
        credit = frames.stream_of(frames.WORD.unpack_from(data, start)[0])
        if not stream:
            self.window += credit
            if not credit or self.window > frames.LARGEST_WINDOW:
                raise ProtocolError(Fault.FLOW_CONTROL_ERROR, "the connection's window cannot be")
            self._pump()
        elif (call := self._calls.get(stream)) is not None:
            call.window += credit
            if not credit or call.window > frames.LARGEST_WINDOW:
                self.out.append(frames.reset(stream, Fault.FLOW_CONTROL_ERROR))
                call.lose()
            else:
                call.pump()

    def _refused(self, *_: object) -> None:
        raise ProtocolError(Fault.PROTOCOL_ERROR, "a caller cannot push")

    def _pump(self) -> None:
        for call in tuple(self.blocked.values()):
            call.pump()

    def _fail(self, error: ProtocolError) -> None:
        self.out.append(frames.go_away(self._last, error.fault, str(error).encode()))
        self._busy = False
        self.flush()
        self._rest = b""
        self.lost()
        self._close()

    _TAKERS: ClassVar[dict[int, Callable[["Connection", int, int, bytes, int, int], None]]] = {
        frames.DATA: _data,
        frames.HEADERS: _headers,
        frames.RST_STREAM: _reset,
        frames.SETTINGS: _settings,
        frames.PUSH_PROMISE: _refused,
        frames.PING: _ping,
        frames.WINDOW_UPDATE: _window_update,
        frames.CONTINUATION: _continuation,
    }


def _nowhere(_: bytes) -> None:
    """Write to a connection that is lost."""


def _unpadded(data: bytes, start: int, stop: int) -> tuple[int, int]:
    start, stop = frames.unpadded(data, start, stop)
    if stop < start:
        raise ProtocolError(Fault.PROTOCOL_ERROR, "a frame is nothing but padding")
    return start, stop
