"""Block identity: the same 64 bits for the same KV block, in every process, whatever the engine calls it.

Problem: routers must know which worker holds which prefix, but engines name blocks by hashes of their own version,
seed and algorithm.  Idea: name a block by what determines its content: the tokens up to its end, chained block by
block from a seed made of model, revision, adapter and block size, with the engine's per-block extra keys (salt,
multimodal items) folded in where they occur.  Agents compute it from an engine's events, routers from a prompt.
Trade-off: 64 bits are fast and small, and a collision can only misroute a request; whatever returns stored bytes
uses `content_key` instead.  Invariants: a hash is never 0 (the index's empty slot), an extra key is 0 only for "none",
and the hashes of a prefix are a prefix of the hashes.
"""

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from inferplane_engine.identity_kernels import chain_blocks

Tokens = NDArray[np.int32]
Hashes = NDArray[np.uint64]
_Scalar: TypeAlias = bool | int | float | str | bytes | None
ExtraValue: TypeAlias = "_Scalar | list[ExtraValue] | tuple[ExtraValue, ...] | dict[str, ExtraValue]"
"""What an engine's extra key can be made of, as an event carries it."""

_Array = TypeVar("_Array", Tokens, Hashes)
_NO_EXTRAS: Final = np.zeros(0, np.uint64)
_VERSION: Final = b"inferplane-block-1"


@dataclass(frozen=True, slots=True)
class KeySpace:
    """What a worker says of itself in `Identity`: blocks of different key spaces are never equal."""

    model: str
    model_revision: str
    block_size: int

    def __post_init__(self) -> None:
        if self.block_size < 1:
            raise ValueError(f"block_size must be at least 1, got {self.block_size}")


@dataclass(frozen=True, slots=True)
class Adapter:
    """A LoRA adapter by name and resolved revision; KV under an adapter differs from the base model's."""

    name: str
    revision: str = ""


def seed(key_space: KeySpace, adapter: Adapter | None = None) -> int:
    """Return where chains of this key space and adapter begin."""
    adapter_parts = () if adapter is None else (adapter.name, adapter.revision)
    return _fold((_VERSION, key_space.model, key_space.model_revision, key_space.block_size, adapter_parts))


def hash_blocks(
    tokens: Tokens, block_size: int, seed: int, extras: Hashes | None = None, parent: int | None = None
) -> Hashes:
    """Hash every full block of `tokens`; a tail shorter than a block has no identity yet.

    `parent` is the hash of the block before the first one (then `seed` is already in it); `extras` has one `extra_key`
    or 0 for every full block, and may be shorter: the rest is 0.
    """
    count = tokens.shape[0] // block_size
    out = np.empty(count, np.uint64)
    keys = _NO_EXTRAS if extras is None else _padded(_plain(extras), count)
    chain_blocks(_plain(tokens), block_size, np.uint64(seed if parent is None else parent), keys, out)
    return out


def extra_key(*values: ExtraValue) -> int:
    """Fold one block's extra keys, in the engine's order, into 64 bits; none at all is 0.

    Lists and tuples are the same, since encodings differ in which of them they give back.
    """
    return _fold(values) if values else 0


def salt_key(salt: str | None) -> int:
    """Return the extra key of block 0 of a prompt under this engine-visible salt."""
    return extra_key(salt) if salt else 0


def prompt_extras(salt: str | None) -> Hashes | None:
    """Return `extras` for a text prompt under an engine-visible salt."""
    return np.array([salt_key(salt)], np.uint64) if salt else None


def engine_salt(tenant: str, client_salt: str) -> str | None:
    """Derive the salt that an engine sees from the tenant and the client's salt; None when there is neither.

    One-way and injective in the pair: a client can reach no other tenant's blocks, whatever salt it sends.
    It begins with a digest of the tenant alone, by which a KV store knows whose blocks are whose.
    """
    if not tenant and not client_salt:
        return None
    owner = _digest(("tenant", tenant), size=8) if tenant else bytes(8)
    return f"ip-{owner.hex()}-{_digest(('salt', tenant, client_salt), size=16).hex()}"


def _plain(array: _Array) -> _Array:
    """Copy views of other kinds: for each kind of array a kernel would be compiled anew, at its first request."""
    flags = array.flags
    return array if flags.c_contiguous and flags.writeable else array.copy()


def _padded(extras: Hashes, count: int) -> Hashes:
    if extras.shape[0] >= count:
        return extras
    keys = np.zeros(count, np.uint64)
    keys[: extras.shape[0]] = extras
    return keys


def _fold(value: ExtraValue) -> int:
    folded = int.from_bytes(_digest(value, size=8), "little")
    return folded or 1


def _digest(value: ExtraValue, *, size: int) -> bytes:
    state = blake2b(digest_size=size)
    for piece in _encoded(value):
        state.update(piece)
    return state.digest()


def _encoded(value: ExtraValue) -> Iterable[bytes]:
    """Encode without ambiguity: every value begins with its kind and its length."""
    if isinstance(value, list | tuple):
        yield _head(b"l", len(value))
        for item in value:
            yield from _encoded(item)
    elif isinstance(value, dict):
        yield _head(b"m", len(value))
        for key in sorted(value):
            yield from _encoded(key)
            yield from _encoded(value[key])
    else:
        yield from _scalar(value)


def _scalar(value: _Scalar) -> Iterable[bytes]:
    match value:
        case None:
            yield b"n"
        case bool():
            yield b"t" if value else b"f"
        case int():
            yield from _framed(b"i", str(value).encode())
        case float():
            yield b"d" + struct.pack("<d", value)
        case str():
            yield from _framed(b"s", value.encode("utf-8", "surrogatepass"))
        case bytes():
            yield from _framed(b"b", value)
        case _:
            raise TypeError(f"an extra key cannot hold a {type(value).__name__}; use text, numbers, bytes or lists")


def _framed(kind: bytes, payload: bytes) -> Iterable[bytes]:
    yield _head(kind, len(payload))
    yield payload


def _head(kind: bytes, length: int) -> bytes:
    return kind + struct.pack("<q", length)
