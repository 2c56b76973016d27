from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from inferplane_router.core.arena import Arena, Place
from inferplane_router.core.block_index import DEVICE, DISK, FIRM, HOST, REMOTE, RESUMABLE, BlockIndex
from inferplane_router.core.index_reader import IndexReader
from inferplane_router.core.overlay import Overlay
from inferplane_router.core.values import Hashes

TARGETS = (0, 1, 63, 64, 130)
CHAINS = [
    [int(value) for value in np.random.default_rng(seed).integers(1, 2**63, 40, dtype=np.uint64)] for seed in range(3)
]
CHAINS[1][:10] = CHAINS[0][:10]
ALL_BITS = np.full(3, ~np.uint64(0))

targets = st.sampled_from(TARGETS)
planes = st.sampled_from((DEVICE, HOST, DISK, RESUMABLE))
stores = st.sampled_from(("s1", "s2"))


@st.composite
def blocks(draw: st.DrawFn) -> list[int]:
    """Draw a run or a handful of blocks of one chain."""
    chain = draw(st.sampled_from(CHAINS))
    if draw(st.booleans()):
        return chain[: draw(st.integers(0, len(chain)))]
    return draw(st.lists(st.sampled_from(chain), max_size=6))


def keys_of(values: list[int]) -> Hashes:
    return np.array(values, np.uint64)


@dataclass
class NaiveIndex:
    planes: dict[tuple[int, int], set[int]] = field(default_factory=dict[tuple[int, int], set[int]])
    stores: dict[str, set[int]] = field(default_factory=dict[str, set[int]])
    attached: dict[str, set[int]] = field(default_factory=dict[str, set[int]])
    hybrid: set[int] = field(default_factory=set[int])
    drops: dict[int, int] = field(default_factory=dict[int, int])

    def plane(self, target: int, plane: int) -> set[int]:
        return self.planes.setdefault((target, plane), set())

    def reachable(self, target: int) -> set[int]:
        return {key for store, keys in self.stores.items() if target in self.attached[store] for key in keys}

    def drop(self, target: int) -> None:
        for plane in (DEVICE, HOST, DISK, RESUMABLE):
            self.planes.pop((target, plane), None)
        self.hybrid.discard(target)
        self.drops.pop(target, None)
        for store in list(self.stores):
            self.attached[store].discard(target)
            if not self.attached[store]:
                del self.stores[store], self.attached[store]

    def tiers(self, target: int, keys: list[int], *, trusted: bool, guesses: set[int]) -> list[int]:
        """Return the tier of every block of the target's prefix."""
        device = self.plane(target, DEVICE) if trusted else set[int]()
        tiers: list[int] = []
        while len(tiers) < len(keys) and keys[len(tiers)] in device | guesses:
            tiers.append(DEVICE)
        while trusted and len(tiers) < len(keys):
            key = keys[len(tiers)]
            if key in self.plane(target, HOST):
                tiers.append(HOST)
            elif key in self.plane(target, DISK):
                tiers.append(DISK)
            elif key in self.reachable(target):
                tiers.append(REMOTE)
            else:
                break
        return self._trimmed(target, keys, tiers, guesses)

    def firm(self, target: int, keys: list[int]) -> int:
        prefix: list[int] = []
        while len(prefix) < len(keys) and keys[len(prefix)] in self.plane(target, DEVICE):
            prefix.append(DEVICE)
        return len(self._trimmed(target, keys, prefix, set()))

    def _trimmed(self, target: int, keys: list[int], tiers: list[int], guesses: set[int]) -> list[int]:
        tiers = tiers[: max(0, len(tiers) - self.drops.get(target, 0))]
        if target in self.hybrid:
            resumable = self.plane(target, RESUMABLE) | guesses
            while tiers and keys[len(tiers) - 1] not in resumable:
                tiers.pop()
        return tiers


@dataclass
class NaiveOverlay:
    owners: dict[tuple[int, int], str] = field(default_factory=dict[tuple[int, int], str])
    until: dict[str, float] = field(default_factory=dict[str, float])

    def predict(self, request: str, target: int, keys: list[int], until: float) -> None:
        self.until[request] = until
        for key in keys:
            self.owners[target, key] = request

    def forget(self, request: str) -> None:
        self.until.pop(request, None)
        self.owners = {place: owner for place, owner in self.owners.items() if owner != request}

    def settle(self, target: int, keys: list[int]) -> None:
        for key in keys:
            self.owners.pop((target, key), None)

    def expire(self, now: float) -> None:
        for request in [request for request, until in self.until.items() if until <= now]:
            self.forget(request)

    def of(self, target: int) -> set[int]:
        return {key for holder, key in self.owners if holder == target}


class IndexMachine(RuleBasedStateMachine):
    """An index in shared memory, read by its writer and by a reader."""

    def __init__(self) -> None:
        super().__init__()
        arena = Arena(1 << 24)
        self.index = BlockIndex(memory=Place(arena, 3))
        self.reader = IndexReader(arena, 3)
        self.overlay = Overlay()
        self.naive = NaiveIndex()
        self.guesses = NaiveOverlay()
        self.trusted = set(TARGETS)
        self.now = 0.0
        self.filler = 0

    @initialize(wide=st.booleans())
    def start(self, wide: bool) -> None:  # noqa: FBT001  # hypothesis passes it by name
        if wide:
            self.index.reserve(131)

    @rule(holder=targets, plane=planes, keys=blocks())
    def store(self, holder: int, plane: int, keys: list[int]) -> None:
        known = self.naive.plane(holder, plane)
        fresh = len(set(keys) - known)
        known.update(keys)

        assert self.index.store(holder, keys_of(keys), plane) == fresh

    @rule(holder=targets, plane=planes, keys=blocks())
    def remove(self, holder: int, plane: int, keys: list[int]) -> None:
        known = self.naive.plane(holder, plane)
        gone = len(set(keys) & known)
        known.difference_update(keys)

        assert self.index.remove(holder, keys_of(keys), plane) == gone

    @rule(holder=targets, plane=planes)
    def clear(self, holder: int, plane: int) -> None:
        self.naive.plane(holder, plane).clear()
        self.index.clear(holder, plane)

    @rule(holder=targets, hybrid=st.booleans(), drop=st.integers(0, 2))
    def describe(self, holder: int, hybrid: bool, drop: int) -> None:  # noqa: FBT001  # hypothesis passes it by name
        (self.naive.hybrid.add if hybrid else self.naive.hybrid.discard)(holder)
        self.naive.drops[holder] = drop
        self.index.describe(holder, hybrid=hybrid, drop_blocks=drop)

    @rule(holder=targets, store=stores, keys=blocks())
    def store_remote(self, holder: int, store: str, keys: list[int]) -> None:
        self.naive.stores.setdefault(store, set()).update(keys)
        self.naive.attached.setdefault(store, set()).add(holder)
        self.index.attach(holder, store)
        self.index.store_remote(store, keys_of(keys))

    @rule(store=stores, keys=blocks())
    def remove_remote(self, store: str, keys: list[int]) -> None:
        if store in self.naive.stores:
            self.naive.stores[store].difference_update(keys)
            self.index.remove_remote(store, keys_of(keys))

    @rule(holder=targets)
    def drop(self, holder: int) -> None:
        self.naive.drop(holder)
        self.index.drop(holder)

    @rule(holder=targets)
    def distrust(self, holder: int) -> None:
        self.trusted ^= {holder}

    @rule(holder=targets, keys=blocks(), request=st.sampled_from("abc"), life=st.floats(0.5, 5))
    def predict(self, holder: int, keys: list[int], request: str, life: float) -> None:
        if not keys or request in self.guesses.until:
            return
        self.guesses.predict(request, holder, keys, self.now + life)
        self.overlay.reserve(self.index.words)
        self.overlay.predict(request, holder, keys_of(keys), self.now + life)

    @rule(request=st.sampled_from("abc"))
    def forget(self, request: str) -> None:
        self.guesses.forget(request)
        self.overlay.forget(request)

    @rule(holder=targets, keys=blocks())
    def settle(self, holder: int, keys: list[int]) -> None:
        self.guesses.settle(holder, keys)
        self.overlay.settle(holder, keys_of(keys))

    @rule(step=st.floats(0.1, 3))
    def pass_time(self, step: float) -> None:
        self.now += step
        self.guesses.expire(self.now)
        self.overlay.expire(self.now)

    @rule()
    def churn(self) -> None:
        """Store and remove so much that the table is rebuilt."""
        self.filler += 1
        keys = np.random.default_rng(self.filler).integers(1, 2**63, 3000, dtype=np.uint64)
        self.index.store(200, keys)
        self.index.remove(200, keys)

    @rule(chain=st.sampled_from(CHAINS))
    def find(self, chain: list[int]) -> None:
        self.index.reserve(max(TARGETS) + 1)
        self.overlay.reserve(self.index.words)
        counts = np.full((self.index.capacity, 5), -1, np.int32)
        trusted = np.zeros(self.index.words, np.uint64)
        for target in self.trusted:
            trusted[target >> 6] |= np.uint64(1 << (target & 63))
        self.index.find(keys_of(chain), trusted, self.overlay.cells, counts)
        read = np.full_like(counts, -1)

        assert self.reader.find(keys_of(chain), trusted, self.overlay.cells, read)
        assert read.tolist() == counts.tolist()

        for target in TARGETS:
            is_trusted = target in self.trusted
            tiers = self.naive.tiers(target, chain, trusted=is_trusted, guesses=self.guesses.of(target))
            expected = [tiers.count(tier) for tier in (DEVICE, HOST, DISK, REMOTE)]

            assert counts[target, :4].tolist() == expected
            assert counts[target, FIRM] == self.naive.firm(target, chain)

    @invariant()
    def counts_are_right(self) -> None:
        for target in TARGETS:
            for plane in (DEVICE, HOST, DISK, RESUMABLE):
                assert self.index.blocks(target, plane) == len(self.naive.plane(target, plane))


IndexMachine.TestCase.settings = settings(
    deadline=None,
    max_examples=30,
    stateful_step_count=40,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
TestTheIndex = pytest.mark.slow(IndexMachine.TestCase)
