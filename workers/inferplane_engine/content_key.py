"""Content keys: what stored KV bytes are found by.

A block hash of 64 bits may collide and then only misroutes; a store that returned the wrong bytes would corrupt an
answer.  So stored bytes are keyed by a chain of BLAKE2b over the same facts, 128 bits or more, slow and certain.
Invariant: equal keys mean equal model, revision, adapter, layout, extra keys and tokens up to the block's end.
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

import numpy as np
from numpy.typing import NDArray

from inferplane_engine.identity import Adapter, KeySpace

KEY_BYTES: Final = 16


def content_seed(key_space: KeySpace, adapter: Adapter | None = None, *, layout: str = "") -> bytes:
    """Return where content chains begin; `layout` names how KV bytes are laid out (dtype, sharding)."""
    parts = ["1", key_space.model, key_space.model_revision, str(key_space.block_size), layout]
    parts += [] if adapter is None else [adapter.name, adapter.revision]
    state = blake2b(digest_size=KEY_BYTES, person=b"inferplane-kv")
    for part in parts:
        raw = part.encode("utf-8", "surrogatepass")
        state.update(len(raw).to_bytes(8, "little") + raw)
    return state.digest()


def content_keys(
    tokens: NDArray[np.int32],
    block_size: int,
    parent: bytes,
    extras: Sequence[bytes] = (),
) -> list[bytes]:
    """Return one key per full block; `parent` is `content_seed` or the key of the block before.

    `extras` holds each block's extra keys, encoded without ambiguity by the caller; missing entries are empty.
    """
    data = np.ascontiguousarray(tokens, dtype="<i4").tobytes()
    width = 4 * block_size
    keys: list[bytes] = []
    for block in range(len(data) // width):
        extra = extras[block] if block < len(extras) else b""
        state = blake2b(parent, digest_size=KEY_BYTES, person=b"inferplane-kv")
        state.update(data[block * width : (block + 1) * width])
        state.update(extra)
        parent = state.digest()
        keys.append(parent)
    return keys
