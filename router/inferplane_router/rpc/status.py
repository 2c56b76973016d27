"""How a call ends, in gRPC's numbers."""

from enum import IntEnum
from functools import lru_cache
from typing import Final

from inferplane_router.rpc.frames import literal

_PLAIN: Final = frozenset(range(0x20, 0x7F)) - {0x25}
_WORDS: Final = 1024


class Status(IntEnum):
    """The statuses that are used here."""

    OK = 0
    INVALID_ARGUMENT = 3
    NOT_FOUND = 5
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14


class CallError(Exception):
    """A call's end that is not OK; the caller is told both."""

    def __init__(self, status: Status, details: str) -> None:
        super().__init__(details)
        self.status = status
        self.details = details


@lru_cache(256)
def trailers(status: Status, details: str) -> bytes:
    """Return the fields that end a call."""
    block = literal(b"grpc-status", b"%d" % status)
    if not details:
        return block
    words = "".join(chr(each) if each in _PLAIN else f"%{each:02X}" for each in details.encode()[:_WORDS])
    return block + literal(b"grpc-message", words.encode())
