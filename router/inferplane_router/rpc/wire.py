"""Protobuf's bytes, put together: for messages that are mostly constant, where objects would cost more than all else.

Invariant: what is written here reads back as the message that the library would have written; the tests compare.
"""

from typing import Final

_ONE_BYTE: Final = 0x80
_BYTES: Final = 2


def tag(field: int) -> int:
    """Return what precedes field number `field`, at most 15, when it holds bytes, text or a message."""
    return field << 3 | _BYTES


def varint(number: int) -> bytes:
    """Write a number that is not negative."""
    written = bytearray()
    while number >= _ONE_BYTE:
        written.append(number & 0x7F | _ONE_BYTE)
        number >>= 7
    written.append(number)
    return bytes(written)


def part(before: int, content: bytes) -> bytes:
    """Write a field whose `tag` is `before`."""
    size = len(content)
    if size < _ONE_BYTE:
        return b"%c%c%b" % (before, size, content)
    return b"%c%b%b" % (before, varint(size), content)
