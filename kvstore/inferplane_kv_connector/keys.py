"""Under what name a block is stored: a hash of everything that its bytes depend on.

Problem: a block reused under a wrong name is a wrong answer that looks right, or one tenant's prompt given to another.
Idea: a chain of 256-bit BLAKE2b digests.  It begins with what all blocks of an engine share (model, revision, dtype,
layout, the key of their checksums), then adapter and salt, then each block's tokens on top of the digest before it; so
a name stands for the whole prefix.  The engine's own block hashes are not used: they may be 64 bits wide and know
nothing of the model.
Trade-off: an upgrade of the engine changes `engine` and with it every name, and starts cold rather than trust that two
versions write the same bytes.
Invariant: two blocks have one name only if every field is equal; fields carry their length, so none runs into the next.
"""

import hashlib
import struct
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass
from typing import Final

KEY_BYTES: Final = 32
OWNER_BYTES: Final = 8
NOBODY: Final = bytes(OWNER_BYTES)
"""Owner of blocks without a tenant."""
SPACE_BYTES: Final = 8
ANY_SPACE: Final = bytes(SPACE_BYTES)
_PERSON: Final = b"inferplane-kv-1"
_SALT_MARK: Final = "ip-"


@dataclass(frozen=True, slots=True)
class KeySpace:
    """What all blocks of one engine depend on, whatever the prompt."""

    engine: str
    """Name and version."""
    model: str
    revision: str
    dtype: str
    """Of weights and activations: it decides the values, not only their width."""
    cache_dtype: str
    layout: str
    """Layers, heads, sizes of one block as they are written down."""
    block_size: int
    """Tokens."""
    sealed_by: str = ""
    """Mark of the key of the checksums: what was sealed with another is not found, rather than found to be bad."""


def key_mark(secret: bytes) -> str:
    """Return what tells keys of checksums apart, and says nothing of them."""
    return _digest((b"sealed by", secret)).hex()


def root(space: KeySpace, *, adapter: str = "", salt: str = "") -> bytes:
    """Return what the first block of a prompt builds upon.  `adapter` names the adapter and its revision."""
    return _digest(str(field).encode() for field in (*astuple(space), adapter, salt))


def space_of(space: KeySpace) -> bytes:
    """Return a short name (8 bytes) of the engines that can read each other's blocks."""
    return root(space)[:SPACE_BYTES]


def extend(parent: bytes, tokens: Sequence[int], block_size: int) -> list[bytes]:
    """Return the names of the whole blocks in `tokens`, which follow the block (or root) `parent`."""
    names: list[bytes] = []
    packed = array("I", tokens)
    for start in range(0, len(packed) - block_size + 1, block_size):
        parent = _digest((parent, packed[start : start + block_size].tobytes()))
        names.append(parent)
    return names


def shard(key: bytes, rank: int, world: int) -> bytes:
    """Return the name of what one of `world` parallel workers holds of a block: its heads, or its layers."""
    return key if world == 1 else _digest((key, struct.pack("<II", rank, world)))


def owner_of(salt: str | None) -> bytes:
    """Return whose block a salt makes it (8 bytes): salts of the gateway begin with a digest of the tenant."""
    if not salt or not salt.startswith(_SALT_MARK):
        return NOBODY
    tag, dash, _ = salt.removeprefix(_SALT_MARK).partition("-")
    if not dash or len(tag) != 2 * OWNER_BYTES:
        return NOBODY
    try:
        return bytes.fromhex(tag)
    except ValueError:
        return NOBODY


def _digest(parts: Iterable[bytes]) -> bytes:
    whole = hashlib.blake2b(digest_size=KEY_BYTES, person=_PERSON)
    for part in parts:
        whole.update(len(part).to_bytes(8, "little"))
        whole.update(part)
    return whole.digest()
