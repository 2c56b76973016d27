"""HTTP/2 frames as bytes: what is read of them, and those that a gRPC server writes.

Invariant: header blocks that are written refer to no table, so equal ones are equal bytes and most are constants.
"""

from enum import IntEnum
from struct import Struct
from typing import Final

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

DATA: Final = 0
HEADERS: Final = 1
RST_STREAM: Final = 3
SETTINGS: Final = 4
PUSH_PROMISE: Final = 5
PING: Final = 6
GOAWAY: Final = 7
WINDOW_UPDATE: Final = 8
CONTINUATION: Final = 9

END_STREAM: Final = 0x01
ACK: Final = 0x01
END_HEADERS: Final = 0x04
PADDED: Final = 0x08
PRIORITY: Final = 0x20

HEADER_TABLE_SIZE: Final = 1
MAX_CONCURRENT_STREAMS: Final = 3
INITIAL_WINDOW_SIZE: Final = 4
MAX_FRAME_SIZE: Final = 5
MAX_HEADER_LIST_SIZE: Final = 6

HEAD: Final = Struct(">IBI")
"""Length and kind in one word, flags, stream."""
HEAD_BYTES: Final = HEAD.size
WORD: Final = Struct(">I")
SETTING: Final = Struct(">HI")
MESSAGE_HEAD: Final = Struct(">BI")
"""Whether a message is compressed, and its length."""
MESSAGE_HEAD_BYTES: Final = MESSAGE_HEAD.size
_WITH_MESSAGE: Final = Struct(">IBIBI")
_STREAM_BITS: Final = 0x7FFFFFFF
_SHORT: Final = 127

DEFAULT_WINDOW: Final = 65_535
DEFAULT_FRAME: Final = 16_384
LARGEST_WINDOW: Final = 0x7FFFFFFF
LARGEST_FRAME: Final = 0xFFFFFF


class Fault(IntEnum):
    """HTTP/2's reasons for the end of a stream or of a connection."""

    NO_ERROR = 0
    PROTOCOL_ERROR = 1
    INTERNAL_ERROR = 2
    FLOW_CONTROL_ERROR = 3
    FRAME_SIZE_ERROR = 6
    REFUSED_STREAM = 7
    CANCEL = 8
    COMPRESSION_ERROR = 9
    ENHANCE_YOUR_CALM = 11


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """Write any frame."""
    return HEAD.pack(len(payload) << 8 | kind, flags, stream) + payload


def message_head(stream: int, size: int) -> bytes:
    """Write what precedes a message of `size` bytes that has a frame to itself."""
    return _WITH_MESSAGE.pack((size + MESSAGE_HEAD_BYTES) << 8 | DATA, 0, stream, 0, size)


def window_update(stream: int, credit: int) -> bytes:
    return frame(WINDOW_UPDATE, 0, stream, WORD.pack(credit))


def reset(stream: int, fault: Fault) -> bytes:
    return frame(RST_STREAM, 0, stream, WORD.pack(fault))


def go_away(last_stream: int, fault: Fault, words: bytes = b"") -> bytes:
    return frame(GOAWAY, 0, 0, WORD.pack(last_stream) + WORD.pack(fault) + words)


def settings(values: dict[int, int]) -> bytes:
    return frame(SETTINGS, 0, 0, b"".join(SETTING.pack(name, value) for name, value in values.items()))


def stream_of(word: int) -> int:
    """Leave the reserved bit out."""
    return word & _STREAM_BITS


def unpadded(data: bytes, start: int, stop: int) -> tuple[int, int]:
    """Return where a padded payload really begins and ends, `stop` below `start` when it cannot be."""
    if start == stop:
        return start, -1
    return start + 1, stop - data[start] if stop - data[start] > start else -1


# Header blocks: literals that no table remembers.


def literal(name: bytes, value: bytes) -> bytes:
    """Write one header field; a name is at most 126 bytes long."""
    return b"\x00%c%b%b%b" % (len(name), name, _length(len(value)), value)


def _length(size: int) -> bytes:
    """Write an integer with a prefix of seven bits."""
    if size < _SHORT:
        return b"%c" % size
    size, written = size - _SHORT, b"\x7f"
    while size > _SHORT:
        written += b"%c" % (size & _SHORT | 0x80)
        size >>= 7
    return written + b"%c" % size


STATUS_200: Final = b"\x88"
ANSWER_FIELDS: Final = STATUS_200 + literal(b"content-type", b"application/grpc")


def headers(stream: int, block: bytes, *, last: bool = False) -> bytes:
    return frame(HEADERS, END_HEADERS | END_STREAM if last else END_HEADERS, stream, block)
