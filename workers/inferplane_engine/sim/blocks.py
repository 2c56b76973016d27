"""Physical KV blocks: who holds them, which can be found again, which goes next.

The problem: an engine's cache is not a set.  Two sequences that compute the same prefix at the same time make two
physical copies; each is announced when stored and again when removed.
The idea: the pool keeps what vLLM's keeps: reference counts, a map from hash to the copies that carry it, and one
queue of free blocks in the order in which they will be taken.  Freed blocks that can be found go to its end, others to
its front.
The invariant: free + held == total at any time, and a block that is free and findable leaves the cache only when taken.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence

from inferplane_engine.sim.config import KvGroup
from inferplane_engine.sim.events import BlocksRemoved, BlocksStored, CacheCleared, CacheEvent, ExtraKeys

Key = tuple[int, int]
"""(block hash, group)"""

NULL_BLOCK = 0


class BlockPool:
    """All blocks of one engine core; block 0 is the null block and is never given out."""

    def __init__(self, blocks: int, *, prefix_caching: bool, events: bool = True) -> None:
        self.total = blocks
        self._caching = prefix_caching
        self._references = [0] * blocks
        self._keys: list[Key | None] = [None] * blocks
        self.contents = [0] * blocks
        self._free: OrderedDict[int, None] = OrderedDict((block, None) for block in range(1, blocks))
        self._copies: dict[Key, int | dict[int, None]] = {}
        """Nearly every key has one copy, and a number is cheaper than a dictionary."""
        self._events: list[CacheEvent] = []
        self._announces = events

    @property
    def free(self) -> int:
        return len(self._free)

    @property
    def held(self) -> int:
        return self.total - 1 - len(self._free)

    @property
    def usage(self) -> float:
        return self.held / (self.total - 1)

    def find(self, key: Key) -> int | None:
        """Return the first copy that carries `key`."""
        copies = self._copies.get(key)
        return next(iter(copies)) if isinstance(copies, dict) else copies

    def find_run(self, hashes: Sequence[int]) -> list[int]:
        """Return the blocks of group 0 that carry `hashes`, up to the first that nobody carries."""
        found: list[int] = []
        copies = self._copies
        for value in hashes:
            block = copies.get((value, 0))
            if block is None:
                break
            found.append(next(iter(block)) if isinstance(block, dict) else block)
        return found

    def cached_keys(self) -> dict[Key, int]:
        """Every key that can be found, with its number of copies."""
        return {key: len(copies) if isinstance(copies, dict) else 1 for key, copies in self._copies.items()}

    def is_free(self, block: int) -> bool:
        return block != NULL_BLOCK and self._references[block] == 0

    def is_cached(self, block: int) -> bool:
        return self._keys[block] is not None

    def take(self, count: int) -> list[int]:
        """Hand out `count` free blocks, forgetting what they held."""
        if count > len(self._free):
            raise ValueError(f"{count} blocks wanted, {len(self._free)} free")
        taken = [self._free.popitem(last=False)[0] for _ in range(count)]
        for block in taken:
            self._forget(block)
            self._references[block] = 1
        return taken

    def touch(self, blocks: Iterable[int]) -> None:
        """Hold blocks that were found."""
        for block in blocks:
            if block == NULL_BLOCK:
                continue
            if self._references[block] == 0:
                del self._free[block]
            self._references[block] += 1

    def release(self, blocks: Sequence[int]) -> None:
        """Let go, in order of eviction: the first is taken first."""
        anonymous: list[int] = []
        for block in blocks:
            if block == NULL_BLOCK:
                continue
            self._references[block] -= 1
            if self._references[block] > 0:
                continue
            if self._keys[block] is None or not self._caching:
                anonymous.append(block)
            else:
                self._free[block] = None
        for block in reversed(anonymous):
            self._free[block] = None
            self._free.move_to_end(block, last=False)

    def store(
        self,
        *,
        group: int,
        spec: KvGroup,
        blocks: Sequence[int],
        hashes: Sequence[int],
        parent: int | None,
        tokens: tuple[int, ...],
        block_size: int,
        adapter: str,
        adapter_id: int | None,
        extra_keys: Sequence[ExtraKeys | None],
    ) -> None:
        """Make full blocks findable and say so; null blocks are skipped, their tokens are not."""
        if not self._caching:
            return
        stored = [
            (block, value, extra) for block, value, extra in zip(blocks, hashes, extra_keys, strict=True) if block
        ]
        for block, value, _ in stored:
            key = (value, group)
            self._keys[block] = key
            self._add_copy(key, block)
        if not self._announces:
            return
        self._events.append(
            BlocksStored(
                hashes=tuple(value for _, value, _ in stored),
                parent=parent,
                token_ids=tokens,
                block_size=block_size,
                group=group,
                kind=spec.kind,
                window=spec.window,
                adapter=adapter,
                adapter_id=adapter_id,
                extra_keys=tuple(extra for _, _, extra in stored) or None,
            )
        )

    def _add_copy(self, key: Key, block: int) -> None:
        first = self._copies.setdefault(key, block)
        if isinstance(first, dict):
            first[block] = None
        elif first != block:
            self._copies[key] = {first: None, block: None}

    def clear(self) -> bool:
        """Forget the whole cache; refused while a block is held."""
        if self.held:
            return False
        self._copies.clear()
        self._keys = [None] * self.total
        if self._announces:
            self._events.append(CacheCleared())
        return True

    def take_events(self) -> tuple[CacheEvent, ...]:
        events, self._events = tuple(self._events), []
        return events

    def _forget(self, block: int) -> None:
        key = self._keys[block]
        if key is None:
            return
        self._keys[block] = None
        copies = self._copies[key]
        if isinstance(copies, dict) and len(copies) > 1:
            del copies[block]
        else:
            del self._copies[key]
        if self._announces:
            self._events.append(BlocksRemoved(hashes=(key[0],), group=key[1]))
