"""The queue's rules in virtual time."""

from random import Random

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from inferplane_operator.cluster.backlog import Backlog, Delays

DELAYS = Delays(settle_s=0.05, first_s=1.0, limit_s=8.0, jitter=0.0)


def backlog() -> Backlog[str]:
    return Backlog(DELAYS, Random(1))


def test_a_burst_is_one_step_that_does_not_wait_for_its_end() -> None:
    queue = backlog()
    for at in (0.0, 0.02, 0.04):
        queue.add("a", at)

    assert queue.take(0.049) is None
    assert queue.take(0.05) == "a"
    assert queue.take(9.0) is None


def test_keys_are_taken_in_the_order_of_their_due_times() -> None:
    queue = backlog()
    queue.add("late", 1.0)
    queue.add("early", 0.5)

    assert [queue.take(2.0), queue.take(2.0), queue.take(2.0)] == ["early", "late", None]


def test_what_is_added_while_a_key_runs_counts_from_its_end() -> None:
    queue = backlog()
    queue.add("a", 0.0)
    assert queue.take(1.0) == "a"
    queue.add("a", 1.5)

    assert queue.take(9.0) is None
    queue.succeeded("a", 9.0)
    assert queue.take(9.0) == "a"


def test_failures_back_off_exponentially_and_a_success_forgets_them() -> None:
    queue = backlog()
    queue.add("a", 0.0)
    now, delays = 1.0, list[float]()
    for _ in range(6):
        assert queue.take(now) == "a"
        delays.append(queue.failed("a", now))
        now += delays[-1]

    assert delays == [1.0, 2.0, 4.0, 8.0, 8.0, 8.0]
    assert queue.take(now) == "a"
    queue.succeeded("a", now)
    queue.add("a", now)
    assert queue.take(now + 0.05) == "a"
    assert queue.failed("a", now) == 1.0


def test_an_event_does_not_shorten_a_back_off_but_an_urgent_one_does() -> None:
    queue = backlog()
    queue.add("a", 0.0)
    queue.take(1.0)
    queue.failed("a", 1.0)
    queue.add("a", 1.1)

    assert queue.next_at() == 2.0
    queue.add("a", 1.2, urgent=True)
    assert queue.next_at() == pytest.approx(1.25)


def test_the_server_may_ask_for_more_patience_than_the_back_off() -> None:
    queue = backlog()
    queue.add("a", 0.0)
    queue.take(1.0)

    assert queue.failed("a", 1.0, at_least_s=30.0) == 30.0


def test_a_look_again_is_kept_unless_something_asks_sooner() -> None:
    queue = backlog()
    queue.add("a", 0.0)
    queue.take(1.0)
    queue.succeeded("a", 1.0, again_in_s=10.0)

    assert queue.next_at() == 11.0
    queue.add("a", 2.0)
    assert queue.next_at() == 2.05
    assert queue.take(3.0) == "a"
    queue.succeeded("a", 3.0)
    assert queue.next_at() is None
    assert len(queue) == 0


def test_jitter_spreads_what_failed_together() -> None:
    queue: Backlog[int] = Backlog(Delays(first_s=1.0, jitter=0.2), Random(7))
    delays = list[float]()
    for key in range(50):
        queue.add(key, 0.0)
    while (taken := queue.take(1.0)) is not None:
        delays.append(queue.failed(taken, 1.0))

    assert len(set(delays)) == 50
    assert all(0.8 <= delay <= 1.2 for delay in delays)


class BacklogMachine(RuleBasedStateMachine):
    """No addition is lost, no key runs twice at once, whatever the order of events."""

    def __init__(self) -> None:
        super().__init__()
        self.queue = Backlog[str](DELAYS, Random(3))
        self.now = 0.0
        self.running = set[str]()
        self.owed = set[str]()

    keys = st.sampled_from(["a", "b", "c"])

    @rule(key=keys, urgent=st.booleans())
    def add(self, key: str, urgent: bool) -> None:  # noqa: FBT001 - hypothesis passes by keyword
        self.queue.add(key, self.now, urgent=urgent)
        self.owed.add(key)

    @rule(seconds=st.floats(0.0, 20.0))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def take(self) -> None:
        key = self.queue.take(self.now)
        if key is not None:
            assert key not in self.running
            self.running.add(key)
            self.owed.discard(key)

    @precondition(lambda self: bool(self.running))
    @rule(data=st.data(), ok=st.booleans(), again=st.one_of(st.none(), st.floats(0.0, 5.0)))
    def finish(self, data: st.DataObject, ok: bool, again: float | None) -> None:  # noqa: FBT001
        key = data.draw(st.sampled_from(sorted(self.running)))
        self.running.discard(key)
        if ok:
            self.queue.succeeded(key, self.now, again_in_s=again)
        else:
            self.queue.failed(key, self.now)

    @invariant()
    def what_is_owed_comes(self) -> None:
        """Whatever is owed and not running is scheduled within the longest back-off."""
        idle = self.owed - self.running
        due = self.queue.next_at()
        assert not idle or (due is not None and due <= self.now + DELAYS.limit_s + DELAYS.settle_s)

    def teardown(self) -> None:
        for key in self.running:
            self.queue.succeeded(key, self.now)
        taken = set[str]()
        while (found := self.queue.take(self.now + 100.0)) is not None:
            taken.add(found)
        assert self.owed <= taken


TestBacklogKeepsItsPromises = BacklogMachine.TestCase
