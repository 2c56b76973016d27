"""The index of a tier against a naive model: slots never overlap, quotas hold, readers keep what they read."""

from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from inferplane_kv_connector.envelope import HEADER_BYTES, Label
from inferplane_kv_connector.keys import NOBODY
from inferplane_kvstore.ledger import Ledger
from inferplane_kvstore.policies import LRU
from inferplane_kvstore.space import PAGE, Space, read_region_header, region_header, stride_of
from inferplane_kvstore.testing import key_of
from inferplane_kvstore.tier_index import Entry, State, TierIndex

OWNER = b"tenant-a"
ONE = PAGE - HEADER_BYTES
QUOTA = 3 * PAGE


def small_index() -> TierIndex:
    return TierIndex(Space(4 * 5 * PAGE, 5 * PAGE), Ledger({OWNER: QUOTA}), LRU)


def put(index: TierIndex, number: int, *, size: int = ONE, owner: bytes = NOBODY) -> Entry | None:
    made = index.reserve(Label(key_of(number), owner, size), 0.0)
    if made is None or made.entry is None:
        return None
    index.publish(key_of(number), b"tag")
    return made.entry


@dataclass
class Reading:
    entry: Entry
    at: int = field(init=False)

    def __post_init__(self) -> None:
        self.at = self.entry.offset


class Books(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.index = small_index()
        self.readers: list[Reading] = []
        self.pinned: set[bytes] = set()

    @rule(number=st.integers(0, 40), pages=st.integers(1, 2), mine=st.booleans(), finish=st.booleans())
    def write(self, number: int, pages: int, mine: bool, finish: bool) -> None:  # noqa: FBT001 - hypothesis names them
        label = Label(key_of(number), OWNER if mine else NOBODY, pages * PAGE - HEADER_BYTES)
        made = self.index.reserve(label, 0.0)
        if made is not None and made.entry is not None and finish:
            self.index.publish(label.key, b"tag")

    @rule(number=st.integers(0, 40))
    def read(self, number: int) -> None:
        entry = self.index.look(key_of(number))
        if entry is not None:
            self.index.hold(entry)
            self.readers.append(Reading(entry))

    @precondition(lambda self: self.readers)
    @rule()
    def finish_reading(self) -> None:
        self.index.let_go(self.readers.pop(0).entry)

    @rule(number=st.integers(0, 40), retire=st.booleans())
    def drop(self, number: int, retire: bool) -> None:  # noqa: FBT001 - see above
        self.index.drop(key_of(number), retire=retire and len(self.index.entries) > 10)
        self.pinned.discard(key_of(number))

    @rule(number=st.integers(0, 3), on=st.booleans())
    def pin(self, number: int, on: bool) -> None:  # noqa: FBT001 - see above
        if self.index.pin(key_of(number), on=on):
            (self.pinned.add if on else self.pinned.discard)(key_of(number))

    @invariant()
    def nobody_shares_a_byte(self) -> None:
        places = {entry.offset: entry.stride for entry in self.index.entries.values()}
        places |= {reading.at: reading.entry.stride for reading in self.readers}
        assert len({entry.offset for entry in self.index.entries.values()}) == len(self.index.entries)
        ends = 0
        for offset, stride in sorted(places.items()):
            assert offset >= ends
            ends = offset + stride
        assert ends <= self.index.space.capacity

    @invariant()
    def readers_keep_what_they_read(self) -> None:
        assert all(reading.entry.offset == reading.at for reading in self.readers)

    @invariant()
    def nobody_is_above_a_quota(self) -> None:
        used = sum(entry.stride for entry in self.index.entries.values() if entry.label.owner == OWNER)
        assert used == self.index.ledger.used().get(OWNER, 0)
        assert used <= QUOTA

    @invariant()
    def what_is_pinned_stays(self) -> None:
        assert all(self.index.look(key) is not None for key in self.pinned)


Books.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestBooks = pytest.mark.slow(Books.TestCase)


def test_nobody_finds_a_block_before_it_is_published() -> None:
    index = small_index()
    index.reserve(Label(key_of(1), NOBODY, ONE), 0.0)

    assert index.look(key_of(1)) is None
    assert index.publish(key_of(1), b"tag") is not None
    assert index.look(key_of(1)) is not None


def test_a_pinned_block_survives_a_flood_of_ten_times_the_capacity() -> None:
    index = small_index()
    put(index, 0)
    index.pin(key_of(0), on=True)
    for number in range(1, 170):
        assert put(index, number) is not None

    assert index.look(key_of(0)) is not None


def test_a_tenant_above_its_quota_pushes_out_its_own_blocks_only() -> None:
    index = small_index()
    others = [put(index, number) for number in range(4)]
    for number in range(100, 120):
        put(index, number, owner=OWNER)

    assert index.ledger.used()[OWNER] == QUOTA
    assert all(entry is not None and entry.state is State.READY for entry in others)


def test_room_of_one_size_is_given_to_another_when_it_is_needed() -> None:
    index = small_index()
    for number in range(16):
        put(index, number)

    assert put(index, 100, size=2 * PAGE - HEADER_BYTES) is not None


def test_a_region_says_its_stride() -> None:
    assert read_region_header(region_header(3 * PAGE)) == 3 * PAGE
    assert read_region_header(bytes(PAGE)) is None
    assert stride_of(1) == PAGE
    assert stride_of(PAGE) == 2 * PAGE
