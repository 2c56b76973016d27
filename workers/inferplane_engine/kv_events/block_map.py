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
from typing import Final

from inferplane_engine.identity import Adapter, Hashes, KeySpace
from inferplane_engine.kv_events.naming import Names
from inferplane_engine.kv_events.planes import Pending, Plane, PlaneChange, packed
from inferplane_engine.kv_events.problem import Problem
from inferplane_engine.kv_events.residency import Residency, decrement, window_blocks
from inferplane_engine.kv_events.saved import SavedGroup, SavedMap, checked, pack, unpack
from inferplane_engine.kv_events.windows import Windows
from inferplane_engine.kv_events.wire import BlockRemoved, BlockStored, EngineHash, KvEvent

_MEDIA: Final = {
    None: Plane.DEVICE,
    "GPU": Plane.DEVICE,
    "CPU": Plane.HOST,
    "STORAGE": Plane.DISK,
    # SGLang's words; what it keeps elsewhere ("EXTERNAL") is no worker's.
    "CPU_PINNED": Plane.HOST,
    "DISK": Plane.DISK,
}
_NEVER_REUSED: Final = frozenset({"encoder_only_attention", "cross_attention"})


class BlockMap:
    """One engine rank's blocks.  `apply` events in order, then `take` what changed for the routers."""

    def __init__(
        self, key_space: KeySpace, *, adapter: Callable[[str], Adapter] = Adapter, max_blocks: int = 1 << 23
    ) -> None:
        """`adapter` resolves a LoRA name to the adapter with its revision."""
        self._key_space = key_space
        self._max_blocks = max_blocks
        self._names = Names(key_space, adapter)
        self._residencies: dict[tuple[int, Plane], Residency] = {}
        self._as_written: dict[tuple[int | None, str | None], Residency] = {}
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
        return len(self._names.ours)

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
        self._names.ours.clear()
        self._residencies.clear()
        self._as_written.clear()
        self._window_groups.clear()
        self._windows.clear()
        for plane in touched:
            self._pending[plane].clear()

    # --- saved ------------------------------------------------------------------------------------------------------

    def save(self) -> SavedMap:
        """Return the map as plain values; take pending changes first, they are not among them."""
        words: dict[int, list[tuple[int | None, str | None]]] = {}
        for written, residency in self._as_written.items():
            words.setdefault(id(residency), []).append(written)
        parents = self._windows.parents
        return SavedMap(
            engine_names=list(self._names.ours),
            names=pack(self._names.ours.values()),
            children=pack(parents),
            parents=pack(parents.values()),
            groups=[
                SavedGroup(
                    group=group,
                    plane=int(plane),
                    windowed=group in self._window_groups,
                    need=self._windows.needs.get(group) if plane is Plane.DEVICE else None,
                    words=words.get(id(residency), []),
                    blocks=pack(residency.counts),
                    copies=pack(residency.counts.values()),
                    unnamed=list(residency.unnamed.items()),
                )
                for (group, plane), residency in self._residencies.items()
            ],
        )

    def restore(self, saved: SavedMap) -> None:
        """Become the map that was saved, with nothing pending.  Raises SavedMapError, and is then what it was."""
        checked(saved, max_blocks=self._max_blocks)
        self.clear()
        self._names.ours = dict(zip(saved.engine_names, unpack(saved.names), strict=True))
        self._window_groups = {group.group for group in saved.groups if group.windowed}
        self._windows.link_all(dict(zip(unpack(saved.children), unpack(saved.parents), strict=True)))
        for group in saved.groups:
            self._restore_group(group)
        self.take()

    def _restore_group(self, saved: SavedGroup) -> None:
        plane = Plane(saved.plane)
        residency = Residency(plane, self._pending[plane], full=not saved.windowed)
        residency.counts = dict(zip(unpack(saved.blocks), unpack(saved.copies), strict=True))
        residency.unnamed = dict(saved.unnamed)
        self._residencies[saved.group, plane] = residency
        self._as_written.update(dict.fromkeys(saved.words, residency))
        if saved.need is not None:
            self._windows.learn(saved.group, saved.need, residency.counts)
            for block in residency.counts:
                self._windows.changed(block)
        self._join_peers(plane)

    # --- stored -----------------------------------------------------------------------------------------------------

    def _store(self, event: BlockStored) -> None:
        if event.kv_cache_spec_kind in _NEVER_REUSED:
            return
        residency = self._residency_of(event)
        if residency is None:
            return
        names = self._names.known(event.block_hashes)
        if names is None:
            names = self._name(event, report=residency.full)
        if names is None:
            for engine_hash in event.block_hashes:
                self._store_by_engine_hash(residency, engine_hash)
        else:
            self._add(residency, names)
        if len(self._names.ours) + len(residency.unnamed) > self._max_blocks:
            self._shrink()

    def _residency_of(self, event: BlockStored) -> Residency | None:
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

    def _learn(self, group: int, plane: Plane, event: BlockStored) -> Residency:
        need = window_blocks(event, self._key_space.block_size)
        windowed = need is not None or group in self._window_groups
        residency = Residency(plane, self._pending[plane], full=not windowed)
        if windowed:
            self._window_groups.add(group)
        if need is not None and plane is Plane.DEVICE:
            self._windows.learn(group, need, residency.counts)
        if residency.full:
            # A block is on the plane when all full-attention groups hold it, and this one holds none yet.
            residency.pending.leave(self._visible(plane))
        self._residencies[group, plane] = residency
        self._join_peers(plane)
        return residency

    def _join_peers(self, plane: Plane) -> None:
        full = self._full(plane)
        for one in full:
            one.peers = tuple(other for other in full if other is not one)

    def _name(self, event: BlockStored, *, report: bool) -> list[int] | None:
        """Name the stretch's blocks by their tokens; None where that is not possible."""
        names = self._names.compute(event)
        if isinstance(names, Problem):
            if report and event.token_ids:
                self._found[names] += 1
            return None
        self._windows.link(names, self._names.parent(event) or 0)
        for residency in self._residencies.values():
            if residency.unnamed:
                self._resolve(residency, event.block_hashes, names)
        return names

    def _resolve(self, residency: Residency, engine_hashes: tuple[EngineHash, ...], hashes: list[int]) -> None:
        """Move copies that were counted by the engine's name to ours."""
        for engine_hash, block in zip(engine_hashes, hashes, strict=True):
            for _ in range(residency.unnamed.pop(engine_hash, 0)):
                self._add(residency, [block])

    def _store_by_engine_hash(self, residency: Residency, engine_hash: EngineHash) -> None:
        block = self._names.ours.get(engine_hash)
        if block is None:
            residency.unnamed[engine_hash] = residency.unnamed.get(engine_hash, 0) + 1
        else:
            self._add(residency, [block])

    def _add(self, residency: Residency, blocks: list[int]) -> None:
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

    def _remove_copy(self, residency: Residency, engine_hash: EngineHash) -> bool:
        block = self._names.ours.get(engine_hash)
        if block is None:
            return decrement(residency.unnamed, engine_hash) is not None
        left = decrement(residency.counts, block)
        if left == 0:
            self._changed(residency, [block], present=False)
            self._forget_if_gone(block, engine_hash)
        return left is not None

    def _forget_if_gone(self, block: int, engine_hash: EngineHash) -> None:
        for residency in self._residencies.values():
            if block in residency.counts:
                return
        del self._names.ours[engine_hash]
        self._windows.forget(block)

    def _shrink(self) -> None:
        """Drop second engine names of blocks that are gone; give up when that is not enough."""
        held = {block for residency in self._residencies.values() for block in residency.counts}
        names = self._names
        names.ours = {engine_hash: block for engine_hash, block in names.ours.items() if block in held}
        if len(names.ours) + sum(len(r.unnamed) for r in self._residencies.values()) > self._max_blocks:
            self._found[Problem.OVERFLOW] += 1
            self.clear()

    # --- planes -----------------------------------------------------------------------------------------------------

    def _changed(self, residency: Residency, blocks: list[int], *, present: bool) -> None:
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

    def _full(self, plane: Plane) -> list[Residency]:
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
