"""From an engine's names of blocks to ours.

An engine names a block by a hash of its own, and says which tokens it holds only when it stores it: a block is named
once, from the tokens of a stretch whose parent is named, and remembered by the engine's hash.  The tokens are dropped.
"""

from collections.abc import Callable
from typing import cast

import numpy as np

from inferplane_engine.identity import Adapter, ExtraValue, Hashes, KeySpace, extra_key, hash_blocks, seed
from inferplane_engine.kv_events.problem import Problem
from inferplane_engine.kv_events.wire import BlockStored, EngineHash


class Names:
    """One rank's names.  `ours` maps the engine's hash to our hash of the same block."""

    __slots__ = ("_adapter", "_key_space", "_seeds", "ours")

    def __init__(self, key_space: KeySpace, adapter: Callable[[str], Adapter]) -> None:
        """`adapter` resolves a LoRA name to the adapter with its revision."""
        self._key_space = key_space
        self._adapter = adapter
        self._seeds: dict[Adapter | None, int] = {}
        self.ours: dict[EngineHash, int] = {}

    def known(self, engine_hashes: tuple[EngineHash, ...]) -> list[int] | None:
        """Return the names of blocks that all have one."""
        ours = self.ours
        try:
            return [ours[engine_hash] for engine_hash in engine_hashes]
        except KeyError:
            return None

    def parent(self, event: BlockStored) -> int | None:
        """Return the name of the block before the stretch; None where it begins a prompt."""
        return None if event.parent_block_hash is None else self.ours[event.parent_block_hash]

    def compute(self, event: BlockStored) -> list[int] | Problem:
        """Name a stretch from its tokens, and remember it."""
        if event.block_size != self._key_space.block_size:
            return Problem.BLOCK_SIZE
        if len(event.token_ids) != event.block_size * len(event.block_hashes):
            return Problem.MALFORMED
        if event.parent_block_hash is not None and event.parent_block_hash not in self.ours:
            return Problem.UNKNOWN_PARENT
        try:
            tokens = np.array(event.token_ids, np.int32)
        except OverflowError:
            return Problem.MALFORMED
        parent = self.parent(event)
        start = self._seed(event.lora_name) if parent is None else parent
        hashes: list[int] = hash_blocks(tokens, event.block_size, start, _extras(event)).tolist()
        self.ours.update(zip(event.block_hashes, hashes, strict=True))
        return hashes

    def _seed(self, lora_name: str | None) -> int:
        adapter = self._adapter(lora_name) if lora_name else None
        start = self._seeds.get(adapter)
        if start is None:
            start = self._seeds[adapter] = seed(self._key_space, adapter)
        return start


def _salted(salt: str, event: BlockStored) -> Hashes | None:
    """Put a salt where a router expects it: at the beginning of the prompt, from which all else follows."""
    if event.parent_block_hash is not None:
        return None
    keys = np.zeros(len(event.block_hashes), np.uint64)
    keys[:1] = extra_key(salt)
    return keys


def _extras(event: BlockStored) -> Hashes | None:
    """Fold each block's extra keys; the adapter is in the seed, so its name is dropped."""
    if event.cache_salt and event.extra_keys is None:
        return _salted(event.cache_salt, event)
    if event.extra_keys is None or not any(event.extra_keys):
        return None
    skip = 1 if event.lora_name else 0
    rows = (row or () for row in event.extra_keys)
    keys = [row[skip:] if skip and row[:1] == (event.lora_name,) else row for row in rows]
    return np.array([extra_key(*cast("tuple[ExtraValue, ...]", key)) for key in keys], np.uint64)
