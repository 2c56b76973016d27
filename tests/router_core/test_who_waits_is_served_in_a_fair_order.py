"""The order of the waiting line, against what it promises."""

from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferplane_router.core.fairness import Turns
from inferplane_router.core.queueing import Waiting, WaitingLine, begin_waiting
from inferplane_router.core.testing import FakeWorker, ask, make_core
from inferplane_router.core.values import Ask

ASK = ask(make_core(FakeWorker("d1")), "r", None)


@dataclass(frozen=True)
class Guest:
    """One who waits, as the strategies draw it."""

    priority: int
    tenant: str
    since: int
    patience: int
    own: int
    pinned: bool


GUESTS = st.lists(
    st.builds(
        Guest,
        priority=st.integers(-1, 1),
        tenant=st.sampled_from("ab"),
        since=st.integers(0, 5),
        patience=st.integers(1, 20),
        own=st.integers(0, 3),
        pinned=st.booleans(),
    ),
    max_size=24,
)


def asked(name: str, *, priority: int = 0, tenant: str = "", pinned: bool = False) -> Ask:
    only = frozenset({"d1"}) if pinned else frozenset[str]()
    return replace(ASK, request_id=name, priority=priority, tenant=tenant, only=only)


def who(name: str, *, since: float = 0.0, patience: float = 100.0, own: float = 0.0, **about: object) -> Waiting:
    request = asked(name, **about)  # type: ignore[arg-type]  # passed on as they are
    return begin_waiting(request, now=since, timeout_s=100.0, patience_s=patience, own_s=own, work=1000 * own)


def line_of(guests: list[Guest]) -> WaitingLine:
    line = WaitingLine()
    for number, guest in enumerate(guests):
        about = {"priority": guest.priority, "tenant": guest.tenant, "pinned": guest.pinned}
        line.join(who(f"r{number}", since=guest.since, patience=guest.patience, own=guest.own, **about))
    return line


def served(line: WaitingLine, now: float = 0.0) -> list[Waiting]:
    """Give everybody a place; return in which order."""
    order: list[Waiting] = []

    def place(entry: Waiting) -> bool:
        order.append(entry)
        return True

    line.serve(place, now)
    return order


@given(GUESTS, st.integers(0, 30))
def test_everybody_leaves_once_and_never_a_lower_priority_before_a_higher(guests: list[Guest], now: int) -> None:
    order = served(line_of(guests), now)
    priorities = [entry.ask.priority for entry in order]

    assert sorted(entry.ask.request_id for entry in order) == sorted(f"r{number}" for number in range(len(guests)))
    assert priorities == sorted(priorities, reverse=True)


@given(GUESTS, st.integers(0, 30))
def test_within_a_priority_who_can_be_in_time_is_before_who_cannot(guests: list[Guest], now: int) -> None:
    order = served(line_of(guests), now)
    bands = [(-entry.ask.priority, entry.latest <= now) for entry in order]

    assert bands == sorted(bands)


@given(GUESTS)
def test_within_a_tenant_waiting_is_ageing(guests: list[Guest]) -> None:
    order = [entry for entry in served(line_of(guests)) if entry.ask.priority == 0 and entry.ask.tenant == "a"]

    assert [entry.due for entry in order] == sorted(entry.due for entry in order)


@given(GUESTS, st.integers(-1, 1), st.integers(0, 40))
def test_who_is_ahead_is_who_would_be_served_before(guests: list[Guest], priority: int, patience: int) -> None:
    one_tenant = [replace(guest, tenant="a") for guest in guests]
    line = line_of(one_tenant)
    newcomer = who("new", priority=priority, patience=patience, tenant="a")
    count, work = line.ahead_of(newcomer)
    line.join(newcomer)
    before = served(line)[:count]

    assert "new" not in {entry.ask.request_id for entry in before}
    assert work == pytest.approx(sum(entry.work for entry in before))


@given(GUESTS, st.data())
def test_nothing_is_left_of_those_who_leave(guests: list[Guest], data: st.DataObject) -> None:
    line = line_of(guests)
    names = [f"r{number}" for number in range(len(guests))]
    gone = data.draw(st.sets(st.sampled_from(names)) if names else st.just(set[str]()))
    now = data.draw(st.integers(0, 30))
    late = {entry.ask.request_id for entry in line.take_late(now, strict=True)}

    assert all((line.leave(name) is None) == (name in late) for name in sorted(gone))
    assert len(line) == len(names) - len(late | gone)
    assert {entry.ask.request_id for entry in served(line, now)} == set(names) - late - gone
    assert len(line) == 0
    assert line.next_deadline() is None
    assert not line.blocks(asked("x"))


@given(GUESTS, st.integers(0, 30))
def test_a_round_asks_in_vain_once_for_those_who_may_go_to_the_same_workers(guests: list[Guest], now: int) -> None:
    line, tried = line_of(guests), list[Waiting]()

    def full(entry: Waiting) -> bool:
        tried.append(entry)
        return False

    line.serve(full, now)

    assert len(tried) == len({guest.pinned for guest in guests})
    assert len(line) == len(guests)


@given(st.lists(st.floats(1, 1000), min_size=4, max_size=60), st.floats(1, 1000))
def test_of_two_tenants_that_always_wait_none_is_ahead_by_more_than_a_request_of_each(
    works: list[float], other: float
) -> None:
    turns, given_to = Turns(), {"a": 0.0, "b": 0.0}
    for work in works:
        tenant = min("ab", key=turns.begins)
        amount = work if tenant == "a" else other
        turns.charge(tenant, amount, {"a", "b"})
        given_to[tenant] += amount

    assert abs(given_to["a"] - given_to["b"]) <= max(works) + other + 1e-6


def test_one_who_floods_the_queue_does_not_delay_another_tenant() -> None:
    line = WaitingLine()
    for number in range(50):
        line.join(who(f"flood{number}", tenant="a"))
    line.join(who("one", tenant="b", since=1.0))

    assert [entry.ask.tenant for entry in served(line)].index("b") <= 1


def test_a_long_prompt_lets_pass_only_those_that_come_soon_after_it() -> None:
    line = WaitingLine()
    line.join(who("long", own=1.0))
    for number in range(10):
        line.join(who(f"short{number}", since=0.5 * number, own=0.01))
    order = [entry.ask.request_id for entry in served(line)]

    assert order.index("long") == 4  # those of the first two seconds


def test_short_prompts_are_not_kept_behind_many_long_ones() -> None:
    line = WaitingLine()
    for number in range(10):
        line.join(who(f"long{number}", since=0.1 * number, own=1.0))
    line.join(who("short", since=1.0, own=0.01))

    assert served(line)[0].ask.request_id == "short"
