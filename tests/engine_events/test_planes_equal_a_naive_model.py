"""A naive engine with physical copies of blocks, against the block map, under any order of events."""

from collections import Counter
from typing import Any

import msgspec
import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from inferplane_engine.identity import KeySpace, hash_blocks, seed
from inferplane_engine.kv_events import (
    AllBlocksCleared,
    BlockMap,
    BlockRemoved,
    BlockStored,
    Plane,
    Problem,
    SavedMap,
)

BLOCK = 2
SPACE = KeySpace("m", "r", BLOCK)
MEDIA = {"GPU": Plane.DEVICE, "CPU": Plane.HOST}
FULL = {0: "full_attention", 1: None}
WINDOWS = {2: ("sliding_window", 5), 3: ("mamba", None), 4: ("chunked_local_attention", None)}
NEEDS = {2: 2, 3: 1, 4: 99}

Chain = tuple[int, ...]
Copy = tuple[int, str, Chain]
chains = st.lists(st.integers(0, 2), min_size=1, max_size=5).map(tuple)


def tokens_of(chain: Chain) -> tuple[int, ...]:
    return tuple(token for block in chain for token in (block, block + 10))


def engine_hash(chain: Chain) -> int:
    return int(hash_blocks(np.array(tokens_of(chain), np.int32), BLOCK, 12345)[-1])


def our_hash(chain: Chain) -> int:
    return int(hash_blocks(np.array(tokens_of(chain), np.int32), BLOCK, seed(SPACE))[-1])


class Engine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.map = BlockMap(SPACE)
        self.copies: Counter[Copy] = Counter()
        self.named: set[Chain] = set()
        self.groups: set[tuple[int, str]] = set()
        self.routers: dict[Plane, set[int]] = {plane: set() for plane in Plane}

    def apply(self, event: Any) -> dict[Problem, int]:
        return dict(self.map.apply([event]))

    @rule(
        chain=chains, first=st.integers(0, 4), group=st.sampled_from([0, 0, 1]), medium=st.sampled_from(["GPU", "CPU"])
    )
    def store_in_a_full_attention_group(self, chain: Chain, first: int, group: int, medium: str) -> None:
        first = min(first, len(chain) - 1)
        stored = [chain[: end + 1] for end in range(first, len(chain))]
        nameable = first == 0 or chain[:first] in self.named
        known = all(block in self.named for block in stored)
        found = self.apply(
            BlockStored(
                block_hashes=tuple(map(engine_hash, stored)),
                parent_block_hash=engine_hash(chain[:first]) if first else None,
                token_ids=tokens_of(chain[first:]),
                block_size=BLOCK,
                medium=medium,
                group_idx=group,
                kv_cache_spec_kind=FULL[group],
            )
        )
        self.add(stored, group, medium, nameable=nameable)

        assert found == ({} if nameable or known else {Problem.UNKNOWN_PARENT: 1})

    @rule(chain=chains, mask=st.lists(st.booleans(), min_size=5, max_size=5), group=st.sampled_from(sorted(WINDOWS)))
    def store_in_a_window_group(self, chain: Chain, mask: list[bool], group: int) -> None:
        stored = [chain[: end + 1] for end in range(len(chain)) if mask[end]]
        kind, window = WINDOWS[group]
        found = self.apply(
            BlockStored(
                block_hashes=tuple(map(engine_hash, stored)),
                parent_block_hash=None,
                token_ids=tokens_of(chain),
                block_size=BLOCK,
                medium="GPU",
                group_idx=group,
                kv_cache_spec_kind=kind,
                kv_cache_spec_sliding_window=window,
            )
        )
        self.add(stored, group, "GPU", nameable=len(stored) == len(chain))

        assert found == {}

    def add(self, stored: list[Chain], group: int, medium: str, *, nameable: bool) -> None:
        self.groups.add((group, medium))
        self.copies.update((group, medium, chain) for chain in stored)
        if nameable:
            self.named.update(stored)

    @rule(data=st.data())
    def remove_one_copy(self, data: st.DataObject) -> None:
        present = sorted(copy for copy, count in self.copies.items() if count)
        if not present:
            return
        group, medium, chain = data.draw(st.sampled_from(present))
        found = self.apply(BlockRemoved((engine_hash(chain),), medium, group))
        self.copies[group, medium, chain] -= 1
        self.copies += Counter()
        if not any(other == chain for _, _, other in self.copies):
            self.named.discard(chain)

        assert found == {}

    @rule(chain=chains, group=st.integers(0, 4))
    def remove_what_is_not_there(self, chain: Chain, group: int) -> None:
        if not self.copies[group, "GPU", chain]:
            assert self.apply(BlockRemoved((engine_hash(chain),), "GPU", group)) == {Problem.UNKNOWN_REMOVAL: 1}

    @rule()
    def clear(self) -> None:
        self.apply(AllBlocksCleared())
        self.copies.clear()
        self.named.clear()
        self.groups.clear()

    @rule()
    def tell_the_routers(self) -> None:
        for change in self.map.take():
            view = self.routers[change.plane]
            removed, stored = set(change.removed.tolist()), set(change.stored.tolist())
            assert not removed & stored
            if change.cleared:
                view.clear()
            assert removed <= view
            view -= removed
            assert not stored & view
            view |= stored

        assert self.routers == self.expected()

    @rule()
    def go_on_in_another_process(self) -> None:
        self.tell_the_routers()
        written = msgspec.msgpack.encode(self.map.save())
        self.map = BlockMap(SPACE)
        self.map.restore(msgspec.msgpack.decode(written, type=SavedMap))

    @invariant()
    def a_snapshot_is_what_the_engine_holds(self) -> None:
        snapshot = {plane: set(hashes.tolist()) for plane, hashes in self.map.snapshot().items()}

        assert {plane: snapshot.get(plane, set()) for plane in Plane} == self.expected()

    def holds(self, group: int, medium: str, chain: Chain) -> bool:
        return chain in self.named and self.copies[group, medium, chain] > 0

    def expected(self) -> dict[Plane, set[int]]:
        sets: dict[Plane, set[int]] = {plane: set() for plane in Plane}
        for medium, plane in MEDIA.items():
            full = [group for group in FULL if (group, medium) in self.groups]
            sets[plane] = {
                our_hash(chain) for chain in self.named if full and all(self.holds(g, medium, chain) for g in full)
            }
        windows = [group for group in WINDOWS if (group, "GPU") in self.groups]
        sets[Plane.RESUMABLE] = {
            our_hash(chain) for chain in self.named if windows and all(self.resumable(g, chain) for g in windows)
        }
        return sets

    def resumable(self, group: int, chain: Chain) -> bool:
        ends = range(len(chain), max(0, len(chain) - NEEDS[group]), -1)
        return all(self.holds(group, "GPU", chain[:end]) for end in ends)


TestEngine = Engine.TestCase
TestEngine.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
