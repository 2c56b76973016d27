"""Where a prefix of a hybrid model may end: the resumable blocks.

Problem: sliding-window and state-space groups keep only some blocks; a prefix can be resumed after a block only if
every such group still has its window (or state) there.  Idea: for every window group keep, per block, how many blocks
in a row up to it are present, capped at what the window needs; a change at one block then travels only to the few
descendants whose capped run it changes.  Trade-off: parents and children of blocks are kept, for hybrid models alone.
Invariant: after `settle`, a block is in `resumable` exactly if in each group its run reaches the group's need; blocks
before the start of a prompt count as present.
"""

from collections import deque
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field

from inferplane_engine.kv_events.planes import Pending

WHOLE_PREFIX = 1 << 40
"""The need of a group whose window is not known: everything from the start."""


@dataclass(slots=True)
class _Group:
    need: int
    present: Container[int]
    runs: dict[int, int] = field(default_factory=dict[int, int])


class Windows:
    """The window groups of one rank, on the device."""

    def __init__(self, pending: Pending) -> None:
        self._pending = pending
        self._groups: dict[int, _Group] = {}
        self._parents: dict[int, int] = {}  # 0: the block begins a prompt
        self._children: dict[int, set[int]] = {}
        self._dirty: dict[int, None] = {}
        self.resumable: set[int] = set()

    def __bool__(self) -> bool:
        return bool(self._groups)

    def learn(self, group: int, need: int, present: Container[int]) -> None:
        """Add a group: nothing is resumable until it has the blocks too."""
        if not self._groups:
            for block, parent in self._parents.items():
                self._children.setdefault(parent, set()).add(block)
        self._groups[group] = _Group(need, present)
        self._leave(set(self.resumable))

    def link(self, blocks: Sequence[int], parent: int) -> None:
        """Say that `blocks` follow each other, the first one after `parent` (0: it begins a prompt)."""
        links = zip(blocks, (parent, *blocks), strict=False)
        if not self._groups:
            self._parents.update(links)
            return
        for block, before in links:
            if self._parents.get(block) != before:
                self._parents[block] = before
                self._children.setdefault(before, set()).add(block)
                self._dirty[block] = None

    @property
    def parents(self) -> Mapping[int, int]:
        """Every block's predecessor (0: none)."""
        return self._parents

    @property
    def needs(self) -> Mapping[int, int]:
        """Blocks in a row that each group needs."""
        return {number: group.need for number, group in self._groups.items()}

    def link_all(self, parents: Mapping[int, int]) -> None:
        """Take predecessors over; call it before the groups are learned."""
        self._parents = dict(parents)

    def changed(self, block: int) -> None:
        """Say that a window group got or lost the block."""
        self._dirty[block] = None

    def forget(self, block: int) -> None:
        """Drop a block that no group holds in any medium; its descendants keep the memory of having had a parent."""
        if not self._groups:
            self._parents.pop(block, None)
            return
        self._settle_blocks([block])
        self._dirty.pop(block, None)
        parent = self._parents.pop(block, 0)
        siblings = self._children.get(parent, set())
        siblings.discard(block)
        if not siblings:
            self._children.pop(parent, None)

    def clear(self) -> None:
        self._groups.clear()
        self._parents.clear()
        self._children.clear()
        self._dirty.clear()
        self.resumable.clear()

    def settle(self) -> None:
        """Bring `resumable` up to date."""
        dirty, self._dirty = self._dirty, {}
        self._settle_blocks(list(dirty))

    def _settle_blocks(self, blocks: list[int]) -> None:
        affected = dict.fromkeys(blocks)
        for group in self._groups.values():
            self._settle_runs(group, blocks, affected)
        for block in affected:
            fits = all(group.runs.get(block, 0) >= group.need for group in self._groups.values())
            if fits and block not in self.resumable:
                self.resumable.add(block)
                self._pending.enter((block,))
            elif not fits:
                self._leave({block} & self.resumable)

    def _settle_runs(self, group: _Group, blocks: list[int], affected: dict[int, None]) -> None:
        queue = deque(blocks)
        while queue:
            block = queue.popleft()
            run = self._run(group, block)
            if run == group.runs.get(block, 0):
                continue
            if run:
                group.runs[block] = run
            else:
                del group.runs[block]
            affected[block] = None
            queue.extend(self._children.get(block, ()))

    def _run(self, group: _Group, block: int) -> int:
        if block not in group.present:
            return 0
        parent = self._parents.get(block)
        before = group.need if parent == 0 else group.runs.get(parent or 0, 0)
        return min(group.need, before + 1)

    def _leave(self, blocks: set[int]) -> None:
        self.resumable -= blocks
        self._pending.leave(blocks)
