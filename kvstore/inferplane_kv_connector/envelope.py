"""What stands before a block's bytes, in memory, on disk and in Redis alike.

Problem: memory flips bits, disks tear writes, and whoever can write to a Redis can write another's blocks.
Idea: a header of fixed size with the block's name and an HMAC-SHA256 over header and bytes, keyed by a secret of the
store.  The engine makes it when it saves and checks it when it loads, so nothing on the way has to be trusted.  The
header has a CRC of its own, so that an index can be rebuilt from headers without reading the bytes.
Trade-off: about 1.3 GB/s a core with the CPU's SHA instructions.  A faster keyed hash would need a compiled extension
in the engine's image.
Invariant: bytes that `check` accepts were sealed under this name, with this secret, and have not changed.
"""

import hashlib
import hmac
import struct
import zlib
from dataclasses import dataclass
from typing import Final

from inferplane_kv_connector.keys import ANY_SPACE, KEY_BYTES, OWNER_BYTES, SPACE_BYTES
from inferplane_kv_connector.marks import UNMARKED

MAGIC: Final = b"IPKV"
VERSION: Final = 2
TAG_BYTES: Final = 32
_FIELDS: Final = struct.Struct(f"<4sHHQ{KEY_BYTES}s{OWNER_BYTES}sQ{SPACE_BYTES}s")
_CRC: Final = struct.Struct("<I")
HEADER_BYTES: Final = 128
_TAG_AT: Final = _FIELDS.size
_CRC_AT: Final = _TAG_AT + TAG_BYTES
EMPTY: Final = bytes(HEADER_BYTES)
"""A header of nothing."""


@dataclass(frozen=True, slots=True)
class Label:
    """Whose bytes these are, and how many."""

    key: bytes
    owner: bytes
    size: int
    """Bytes without the header."""
    mark: int = UNMARKED
    """The block's name among routers."""
    space: bytes = ANY_SPACE
    """Which engines can read it (see `keys.space_of`)."""


@dataclass(frozen=True, slots=True)
class Header:
    label: Label
    tag: bytes


def seal(label: Label, payload: bytes | bytearray | memoryview, secret: bytes) -> bytes:
    """Return the tag (32 bytes) of a block.  Releases the interpreter's lock while it reads."""
    mac = hmac.new(secret, _fields(label), hashlib.sha256)
    mac.update(payload)
    return mac.digest()


def check(label: Label, tag: bytes, payload: bytes | bytearray | memoryview, secret: bytes) -> bool:
    return len(payload) == label.size and hmac.compare_digest(tag, seal(label, payload, secret))


def pack(header: Header) -> bytes:
    """Return the 128 bytes that go before the block."""
    body = _fields(header.label) + header.tag
    return (body + _CRC.pack(zlib.crc32(body))).ljust(HEADER_BYTES, b"\0")


def unpack(raw: bytes | memoryview) -> Header | None:
    """Read a header; None for what is none, or was written by half."""
    if len(raw) < HEADER_BYTES:
        return None
    body = bytes(raw[:_CRC_AT])
    if _CRC.unpack(raw[_CRC_AT : _CRC_AT + _CRC.size])[0] != zlib.crc32(body):
        return None
    magic, version, _, size, key, owner, mark, space = _FIELDS.unpack(body[:_TAG_AT])
    if magic != MAGIC or version != VERSION:
        return None
    return Header(Label(key, owner, size, mark, space), body[_TAG_AT:])


def _fields(label: Label) -> bytes:
    return _FIELDS.pack(MAGIC, VERSION, 0, label.size, label.key, label.owner, label.mark, label.space)
