"""Who cannot be served in time is told at once and told when to come back; a burst is let wait."""

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferplane_api.proto import worker_pb2
from inferplane_router.core.admission import Appointments, Pace, Strain, hold_s, patience_s
from inferplane_router.core.router import RouterCore
from inferplane_router.core.testing import FakeWorker, accepted, ask, finished, make_core, service
from inferplane_router.core.values import Queued, RefusalReason, Refused, Routed

HELD_S = 1.0
"""How long the worker of these tests has each request."""


@given(st.lists(st.tuples(st.floats(0, 5), st.floats(0, 1e4), st.floats(0, 100)), max_size=50))
def test_an_appointment_is_between_a_second_and_a_minute_ahead(visits: list[tuple[float, float, float]]) -> None:
    appointments, now = Appointments(), 0.0
    for later, wait_s, each_s in visits:
        now += later

        assert 1.0 <= appointments.give(now, wait_s=wait_s, each_s=each_s) <= 60.0


def test_appointments_of_a_crowd_are_as_far_apart_as_it_can_be_served() -> None:
    appointments = Appointments()
    times = [appointments.give(0.0, wait_s=2.0, each_s=0.1) for _ in range(100)]

    assert times == sorted(times)
    assert times[0] == pytest.approx(2.1)
    assert times[-1] == pytest.approx(12.0)
    appointments.free(0.0)
    assert appointments.give(0.0, wait_s=2.0, each_s=0.1) == times[0]


@given(st.floats(0.01, 100), st.floats(0, 1000))
def test_a_prompt_of_any_length_may_wait_half_its_limit(limit_s: float, own_s: float) -> None:
    assert limit_s / 2 <= patience_s(limit_s, own_s) <= limit_s
    assert hold_s(limit_s) >= 0.2


@given(st.lists(st.tuples(st.floats(0, 30), st.booleans()), max_size=60))
def test_strain_is_trouble_without_a_pause(what: list[tuple[float, bool]]) -> None:
    strain, now, troubles = Strain(), 0.0, list[float]()
    for later, trouble in what:
        now += later
        if trouble:
            strain.trouble(now, 1.0)
            troubles.append(now)
        recent = [each for each in troubles if now - each <= 5.0]

        assert not strain.lasts(now, 1.0) or recent
        if not trouble and not recent:
            assert not strain.lasts(now, 1.0)


@given(st.integers(0, 1000), st.floats(0, 1e6), st.integers(0, 100), st.floats(0.01, 10))
def test_the_wait_grows_with_what_is_ahead_and_falls_with_what_is_served(
    count: int, work: float, in_flight: int, held_s: float
) -> None:
    pace = Pace()
    assert pace.wait_s(count, work, in_flight) is None
    for _ in range(20):
        pace.completed(held_s, 100)
    wait_s = pace.wait_s(count, work, in_flight)

    assert wait_s is not None
    assert wait_s <= (pace.wait_s(count + 1, work + 1, in_flight) or 0)
    assert wait_s >= (pace.wait_s(count, work, in_flight + 1) or 0)


@dataclass
class Hall:
    """One worker that takes `places` requests and keeps each for a second; time goes on by `run`."""

    places: int = 4
    queue_limit: int = 1000
    core: RouterCore = field(init=False)
    now: float = 0.0
    ends: list[tuple[float, str]] = field(default_factory=list[tuple[float, str]])
    waits: dict[str, float] = field(default_factory=dict[str, float])
    refused: dict[str, Refused] = field(default_factory=dict[str, Refused])
    served: dict[str, float] = field(default_factory=dict[str, float])

    def __post_init__(self) -> None:
        self.worker = FakeWorker("d1", max_num_seqs=self.places)
        settings = service(queue_limit=self.queue_limit, queue_timeout_s=30.0, ttft_s=2.0)
        self.core = make_core(self.worker, services=[settings])

    def ask(self, name: str, *, priority: int = 0, ttft_s: float | None = None) -> Routed | Queued | Refused:
        self.waits[name] = self.now
        answer = self.core.pick(replace(ask(self.core, name, None), priority=priority, ttft_s=ttft_s), self.now)
        if not isinstance(answer, Queued):
            self._take(name, answer)
        return answer

    def run(self, seconds: float) -> None:
        until = self.now + seconds
        while self.ends and self.ends[0][0] <= until:
            self.now, name = self.ends.pop(0)
            self.core.on_worker_message("d1", self.worker.load(finished(name)), self.now)
            self.core.complete(name, worker_pb2.OUTCOME_OK, self.now)
            self._poll()
        self.now = until
        self._poll()

    def settle(self) -> None:
        """Let the pace be learned."""
        for number in range(12):
            self.ask(f"settle{number}")
            self.run(HELD_S)

    def _poll(self) -> None:
        for name, answer in self.core.poll(self.now):
            self._take(name, answer)

    def _take(self, name: str, answer: Routed | Refused) -> None:
        waited = self.now - self.waits.pop(name)
        if isinstance(answer, Refused):
            self.refused[name] = answer
            return
        self.served[name] = waited
        self.core.on_worker_message("d1", self.worker.load(accepted(name)), self.now)
        self.ends.append((self.now + HELD_S, name))


def test_a_burst_is_let_wait_longer_than_its_limit() -> None:
    hall = Hall()
    hall.settle()
    for number in range(20):
        hall.ask(f"burst{number}")
    hall.run(10.0)

    assert hall.refused == {}
    assert max(hall.served.values()) > 2.0


def test_under_lasting_overload_who_is_served_is_served_in_time_and_no_place_stays_empty() -> None:
    hall = Hall()
    hall.settle()
    before = len(hall.served)
    for number in range(600):  # 6 a second, of which 4 can be served
        hall.ask(f"r{number}")
        hall.run(1 / 6)
    late = [name for name, waited in hall.served.items() if waited > 2.0]
    told = [name for name, answer in hall.refused.items() if answer.reason is RefusalReason.DEADLINE]

    assert len(hall.served) - before > 0.95 * 4 * 100
    assert not [name for name in late if int(name[1:]) > 200]  # once it is no burst any more
    assert len(told) > 100
    assert all(1 <= hall.refused[name].retry_after_s <= 60 for name in told)


def test_the_important_ones_are_served_while_the_others_are_refused() -> None:
    hall = Hall()
    hall.settle()
    for number in range(600):
        hall.ask(f"r{number}", priority=10 if number % 3 == 0 else 0)
        hall.run(1 / 6)
    important = {f"r{number}" for number in range(0, 600, 3)}

    assert not important & hall.refused.keys()
    assert max(hall.served[name] for name in important & hall.served.keys()) <= 1.0


def test_who_names_a_limit_hears_at_once_that_it_cannot_be_kept() -> None:
    hall = Hall()
    hall.settle()
    for number in range(12):
        hall.ask(f"ahead{number}")
    patient, hurried = hall.ask("patient"), hall.ask("hurried", ttft_s=0.2)

    assert isinstance(patient, Queued)
    assert isinstance(hurried, Refused)
    assert hurried.reason is RefusalReason.DEADLINE
    assert 1.0 <= hurried.retry_after_s <= 5.0


def test_a_full_queue_lets_a_less_important_one_go_for_a_more_important_one() -> None:
    hall = Hall(queue_limit=2)
    for number in range(4):
        hall.ask(f"has{number}")
    hall.ask("first")
    hall.ask("second")

    assert isinstance(hall.ask("third"), Refused)
    assert isinstance(hall.ask("important", priority=1), Queued)
    hall.run(0.0)
    assert hall.refused["second"].reason is RefusalReason.QUEUE_FULL
    assert "first" not in hall.refused
    assert hall.core.statistics().services[0].queued == 2


def test_a_request_that_may_go_elsewhere_does_not_wait_behind_those_that_may_not() -> None:
    core = make_core(FakeWorker("d1", max_num_seqs=1), FakeWorker("d2", max_num_seqs=1))
    pinned = frozenset({"d1"})
    core.pick(ask(core, "has", None, only=pinned), 0.0)

    assert isinstance(core.pick(ask(core, "waits", None, only=pinned), 0.1), Queued)
    assert isinstance(core.pick(ask(core, "goes", None), 0.1), Routed)
