"""From an engine's events to sets of our block hashes: names, copies, groups and media.

Problem: events are not sets.  Every physical copy is stored and removed on its own; each attention group and each
medium has its own copies; groups with windows skip blocks while their tokens span all; blocks are named by the
engine's own hashes.  Idea: name a block once, from the tokens of a stretch whose parent is named, remember the engine's
hash for it, and count copies per (group, medium, block).  A block is on a plane when every full-attention group holds
it there; where a hybrid model's prefix may end is worked out by `Windows`.
Trade-off: plain dictionaries, one entry a block and residency; the tokens are dropped once hashed.
Invariants: a plane changes only when a count goes 0 <-> 1; an event that cannot be placed is reported as a `Problem`,
and its copies are still counted under the engine's name, so that later events resolve or remove them.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, TypeVar, cast

import numpy as np

from inferplane_engine.identity import Adapter, ExtraValue, Hashes, KeySpace, extra_key, hash_blocks, seed
from inferplane_engine.kv_events.planes import Pending, Plane, PlaneChange, packed
from inferplane_engine.kv_events.windows import WHOLE_PREFIX, Windows
from inferplane_engine.kv_events.wire import BlockRemoved, BlockStored, EngineHash, KvEvent


class Problem(StrEnum):
    """What an event said that does not fit what was said before."""

    UNKNOWN_PARENT = "unknown parent"  # events were lost: the blocks are there, their names are not known
    UNKNOWN_REMOVAL = "removal of a block that was never stored"  # events were lost, or counted twice
    BLOCK_SIZE = "block size differs from the worker's"
    MALFORMED = "tokens do not fill the blocks"
    UNKNOWN_MEDIUM = "unknown medium"
    OVERFLOW = "more blocks than the engine can hold"  # the map was cleared


_Key = TypeVar("_Key")
_MEDIA: Final = {None: Plane.DEVICE, "GPU": Plane.DEVICE, "CPU": Plane.HOST, "STORAGE": Plane.DISK}
_WINDOWED: Final = frozenset({"sliding_window", "sliding_window_mla", "chunked_local_attention"})
_STATE: Final = frozenset({"mamba"})
_NEVER_REUSED: Final = frozenset({"encoder_only_attention", "cross_attention"})


@dataclass(slots=True)
class _Residency:
    """Copies that one group holds in one medium: by our hash, and by the engine's where ours is not known."""

    plane: Plane
    pending: Pending
    full: bool
    peers: "tuple[_Residency, ...]" = ()
    """The other full-attention groups in the same medium."""
    counts: dict[int, int] = field(default_factory=dict[int, int])
    unnamed: dict[EngineHash, int] = field(default_factory=dict[EngineHash, int])


class BlockMap:
    """One engine rank's blocks.  `apply` events in order, then `take` what changed for the routers."""

    def __init__(
        self, key_space: KeySpace, *, adapter: Callable[[str], Adapter] = Adapter, max_blocks: int = 1 << 23
    ) -> None:
        """`adapter` resolves a LoRA name to the adapter with its revision."""
        self._key_space = key_space
        self._adapter = adapter
        self._max_blocks = max_blocks
        self._names: dict[EngineHash, int] = {}
        self._seeds: dict[Adapter | None, int] = {}
        self._residencies: dict[tuple[int, Plane], _Residency] = {}
        self._as_written: dict[tuple[int | None, str | None], _Residency] = {}
        """The same by the event's own words: hashing an enum is slow."""
        self._window_groups: set[int] = set()
        self._pending = {plane: Pending() for plane in Plane}
        self._windows = Windows(self._pending[Plane.RESUMABLE])
        self._found: Counter[Problem] = Counter()
        self.problems: Counter[Problem] = Counter()
        """Everything found since the start."""

    @property
    def hybrid(self) -> bool:
        """True once a group with windows or states has been seen."""
        return bool(self._windows)

    @property
    def blocks(self) -> int:
        """Return the number of blocks known by name."""
        return len(self._names)

    def apply(self, events: Iterable[KvEvent]) -> Counter[Problem]:
        """Apply events and return what was wrong with them (empty: nothing)."""
        self._found = Counter()
        for event in events:
            if isinstance(event, BlockStored):
                self._store(event)
            elif isinstance(event, BlockRemoved):
                self._remove(event)
            else:
                self.clear()
        if self._found:
            self.problems.update(self._found)
        return self._found

    def take(self) -> list[PlaneChange]:
        """Return the net changes since the last call."""
        self._windows.settle()
        changes = (pending.take(plane) for plane, pending in self._pending.items())
        return [change for change in changes if change is not None]

    def snapshot(self) -> dict[Plane, Hashes]:
        """Return every plane's whole set, pending changes included; planes without blocks are left out."""
        self._windows.settle()
        planes = {plane: self._visible(plane) for plane in (Plane.DEVICE, Plane.HOST, Plane.DISK)}
        sets: dict[Plane, Hashes] = {plane: packed(blocks) for plane, blocks in planes.items() if blocks}
        if self._windows.resumable:
            sets[Plane.RESUMABLE] = packed(self._windows.resumable)
        return sets

    def clear(self) -> None:
        """Forget every block; the groups are learned anew."""
        touched = {residency.plane for residency in self._residencies.values()}
        if self.hybrid:
            touched.add(Plane.RESUMABLE)
        self._names.clear()
        self._residencies.clear()
        self._as_written.clear()
        self._window_groups.clear()
        self._windows.clear()
        for plane in touched:
            self._pending[plane].clear()

    # --- stored -----------------------------------------------------------------------------------------------------

    def _store(self, event: BlockStored) -> None:
        if event.kv_cache_spec_kind in _NEVER_REUSED:
            return
        residency = self._residency_of(event)
        if residency is None:
            return
        names = self._known_names(event.block_hashes)
        if names is None:
            names = self._name(event, report=residency.full)
        if names is None:
            for engine_hash in event.block_hashes:
                self._store_by_engine_hash(residency, engine_hash)
        else:
            self._add(residency, names)
        if len(self._names) + len(residency.unnamed) > self._max_blocks:
            self._shrink()

    def _residency_of(self, event: BlockStored) -> _Residency | None:
        residency = self._as_written.get((event.group_idx, event.medium))
        if residency is not None:
            return residency
        plane = self._plane(event.medium)
        if plane is None:
            return None
        group = event.group_idx or 0
        residency = self._residencies.get((group, plane)) or self._learn(group, plane, event)
        self._as_written[event.group_idx, event.medium] = residency
        return residency

    def _learn(self, group: int, plane: Plane, event: BlockStored) -> _Residency:
        need = _window_blocks(event, self._key_space.block_size)
        windowed = need is not None or group in self._window_groups
        residency = _Residency(plane, self._pending[plane], full=not windowed)
        if windowed:
            self._window_groups.add(group)
        if need is not None and plane is Plane.DEVICE:
            self._windows.learn(group, need, residency.counts)
        if residency.full:
            # A block is on the plane when all full-attention groups hold it, and this one holds none yet.
            residency.pending.leave(self._visible(plane))
        self._residencies[group, plane] = residency
        full = self._full(plane)
        for one in full:
            one.peers = tuple(other for other in full if other is not one)
        return residency

    def _known_names(self, engine_hashes: tuple[EngineHash, ...]) -> list[int] | None:
        names = self._names
        try:
            return [names[engine_hash] for engine_hash in engine_hashes]
        except KeyError:
            return None

    def _name(self, event: BlockStored, *, report: bool) -> list[int] | None:
        """Compute our hashes from the stretch's tokens; None where that is not possible."""
        problem = self._cannot_name(event)
        if problem is not None:
            if report and event.token_ids:
                self._found[problem] += 1
            return None
        try:
            tokens = np.array(event.token_ids, np.int32)
        except OverflowError:
            self._found[Problem.MALFORMED] += 1
            return None
        parent = None if event.parent_block_hash is None else self._names[event.parent_block_hash]
        start = self._seed(event.lora_name) if parent is None else parent
        hashes: list[int] = hash_blocks(tokens, event.block_size, start, _extras(event)).tolist()
        self._remember(event.block_hashes, hashes, parent)
        return hashes

    def _cannot_name(self, event: BlockStored) -> Problem | None:
        if event.block_size != self._key_space.block_size:
            return Problem.BLOCK_SIZE
        if len(event.token_ids) != event.block_size * len(event.block_hashes):
            return Problem.MALFORMED
        if event.parent_block_hash is not None and event.parent_block_hash not in self._names:
            return Problem.UNKNOWN_PARENT
        return None

    def _seed(self, lora_name: str | None) -> int:
        adapter = self._adapter(lora_name) if lora_name else None
        start = self._seeds.get(adapter)
        if start is None:
            start = self._seeds[adapter] = seed(self._key_space, adapter)
        return start

    def _remember(self, engine_hashes: tuple[EngineHash, ...], hashes: list[int], parent: int | None) -> None:
        self._names.update(zip(engine_hashes, hashes, strict=True))
        self._windows.link(hashes, parent or 0)
        for residency in self._residencies.values():
            if residency.unnamed:
                self._resolve(residency, engine_hashes, hashes)

    def _resolve(self, residency: _Residency, engine_hashes: tuple[EngineHash, ...], hashes: list[int]) -> None:
        """Move copies that were counted by the engine's name to ours."""
        for engine_hash, block in zip(engine_hashes, hashes, strict=True):
            for _ in range(residency.unnamed.pop(engine_hash, 0)):
                self._add(residency, [block])

    def _store_by_engine_hash(self, residency: _Residency, engine_hash: EngineHash) -> None:
        block = self._names.get(engine_hash)
        if block is None:
            residency.unnamed[engine_hash] = residency.unnamed.get(engine_hash, 0) + 1
        else:
            self._add(residency, [block])

    def _add(self, residency: _Residency, blocks: list[int]) -> None:
        counts = residency.counts
        entered: list[int] = []
        for block in blocks:
            copies = counts.get(block)
            if copies is None:
                counts[block] = 1
                entered.append(block)
            else:
                counts[block] = copies + 1
        if entered:
            self._changed(residency, entered, present=True)

    # --- removed ----------------------------------------------------------------------------------------------------

    def _remove(self, event: BlockRemoved) -> None:
        residency = self._as_written.get((event.group_idx, event.medium))
        if residency is None:
            plane = self._plane(event.medium)
            if plane is None:
                return
            residency = self._residencies.get((event.group_idx or 0, plane))
        for engine_hash in event.block_hashes:
            if residency is None or not self._remove_copy(residency, engine_hash):
                self._found[Problem.UNKNOWN_REMOVAL] += 1

    def _remove_copy(self, residency: _Residency, engine_hash: EngineHash) -> bool:
        block = self._names.get(engine_hash)
        if block is None:
            return _decrement(residency.unnamed, engine_hash) is not None
        left = _decrement(residency.counts, block)
        if left == 0:
            self._changed(residency, [block], present=False)
            self._forget_if_gone(block, engine_hash)
        return left is not None

    def _forget_if_gone(self, block: int, engine_hash: EngineHash) -> None:
        for residency in self._residencies.values():
            if block in residency.counts:
                return
        del self._names[engine_hash]
        self._windows.forget(block)

    def _shrink(self) -> None:
        """Drop second engine names of blocks that are gone; give up when that is not enough."""
        held = {block for residency in self._residencies.values() for block in residency.counts}
        self._names = {engine_hash: block for engine_hash, block in self._names.items() if block in held}
        if len(self._names) + sum(len(r.unnamed) for r in self._residencies.values()) > self._max_blocks:
            self._found[Problem.OVERFLOW] += 1
            self.clear()

    # --- planes -----------------------------------------------------------------------------------------------------

    def _changed(self, residency: _Residency, blocks: list[int], *, present: bool) -> None:
        if not residency.full:
            for block in blocks:
                self._windows.changed(block)
            return
        peers = residency.peers
        shown = [block for block in blocks if all(block in peer.counts for peer in peers)] if peers else blocks
        if present:
            residency.pending.enter(shown)
        else:
            residency.pending.leave(shown)

    def _full(self, plane: Plane) -> list[_Residency]:
        return [residency for residency in self._residencies.values() if residency.full and residency.plane is plane]

    def _visible(self, plane: Plane) -> dict[int, int]:
        groups = self._full(plane)
        if len(groups) == 1:
            return groups[0].counts
        return {block: 1 for group in groups[:1] for block in group.counts if all(block in g.counts for g in groups)}

    def _plane(self, medium: str | None) -> Plane | None:
        plane = _MEDIA.get(medium)
        if plane is None:
            plane = _MEDIA.get(str(medium).upper())
        if plane is None:
            self._found[Problem.UNKNOWN_MEDIUM] += 1
        return plane


def _decrement(counts: dict[_Key, int], key: _Key) -> int | None:
    """Take one copy away and return how many are left; None when there was none."""
    copies = counts.get(key)
    if copies is None:
        return None
    if copies == 1:
        del counts[key]
    else:
        counts[key] = copies - 1
    return copies - 1


def _window_blocks(event: BlockStored, block_size: int) -> int | None:
    """Return how many blocks in a row a group needs at the end of a prefix; None for full attention."""
    if event.kv_cache_spec_kind in _STATE:
        return 1
    if event.kv_cache_spec_kind not in _WINDOWED:
        return None
    window = event.kv_cache_spec_sliding_window
    if window is None or event.block_size != block_size:
        return WHOLE_PREFIX
    return -(-(window - 1) // event.block_size)


def _extras(event: BlockStored) -> Hashes | None:
    """Fold each block's extra keys; the adapter is in the seed, so its name is dropped."""
    if event.extra_keys is None or not any(event.extra_keys):
        return None
    skip = 1 if event.lora_name else 0
    rows = (row or () for row in event.extra_keys)
    keys = [row[skip:] if skip and row[:1] == (event.lora_name,) else row for row in rows]
    return np.array([extra_key(*cast("tuple[ExtraValue, ...]", key)) for key in keys], np.uint64)
