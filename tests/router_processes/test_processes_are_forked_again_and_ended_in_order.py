"""What the supervisor decides, without any process."""

import signal

from hypothesis import given
from hypothesis import strategies as st

from inferplane_router.processes.crew import INDEX, Action, Crew, End, Fork, Member, Part, Signal

FIRST, SECOND = Member(Part.GATEWAY, 0), Member(Part.GATEWAY, 1)


def begun(gateways: int = 2) -> Crew:
    crew = Crew(gateways)
    crew.begin(0.0)
    return crew


def test_the_index_process_and_every_gateway_begin() -> None:
    assert Crew(2).begin(0.0) == [Fork(INDEX), Fork(FIRST), Fork(SECOND)]


def test_who_dies_is_forked_again_at_once_and_more_slowly_if_it_dies_again() -> None:
    crew = begun()

    assert crew.exited(FIRST, -signal.SIGKILL, 100.0) == [Fork(FIRST)]
    assert crew.exited(FIRST, -signal.SIGSEGV, 100.1) == [Fork(FIRST)]
    assert crew.exited(FIRST, -signal.SIGSEGV, 100.2) == []
    assert crew.next_due() == 100.45
    assert crew.due(100.4) == []
    assert crew.due(100.45) == [Fork(FIRST)]
    assert crew.exited(FIRST, 1, 100.5) == []
    assert crew.next_due() == 101.0


def test_a_router_that_cannot_begin_ends_with_the_code_of_who_said_so() -> None:
    crew = begun(1)

    assert crew.exited(FIRST, 1, 1.0) == [Signal(INDEX, signal.SIGTERM)]
    assert crew.exited(INDEX, 0, 1.1) == [End(1)]


def test_a_wrong_configuration_ends_a_router_whenever_it_is_found() -> None:
    crew = begun(1)

    assert crew.exited(INDEX, 2, 100.0) == [Signal(FIRST, signal.SIGTERM)]
    assert crew.exited(FIRST, 0, 101.0) == [End(2)]


def test_a_drain_ends_the_gateways_before_the_index_process() -> None:
    crew = begun()

    assert crew.stop(10.0) == [Signal(FIRST, signal.SIGTERM), Signal(SECOND, signal.SIGTERM)]
    assert crew.exited(SECOND, 0, 11.0) == []
    assert crew.exited(FIRST, 0, 12.0) == [Signal(INDEX, signal.SIGTERM)]
    assert crew.exited(INDEX, 0, 12.5) == [End(0)]


def test_nobody_is_forked_again_during_a_drain() -> None:
    crew = begun()
    crew.exited(FIRST, -9, 10.0)
    crew.exited(FIRST, -9, 10.1)
    crew.exited(FIRST, -9, 10.2)
    crew.stop(10.3)

    assert crew.next_due() is None
    assert crew.exited(INDEX, -9, 10.4) == []
    assert crew.exited(SECOND, 0, 11.0) == [End(1)]


def test_a_second_signal_ends_all_at_once() -> None:
    crew = begun()
    crew.stop(10.0)
    crew.exited(SECOND, 0, 11.0)
    kills = [Signal(INDEX, signal.SIGKILL), Signal(FIRST, signal.SIGKILL)]

    assert sorted(map(str, crew.stop(12.0))) == sorted(map(str, [*kills, End(130)]))


class Processes:
    """Carries out what the crew says, and minds that it makes sense."""

    def __init__(self, gateways: int) -> None:
        self.crew = Crew(gateways)
        self.running: set[Member] = set()
        self.codes: list[int] = []
        self.now = 0.0
        self.carry_out(self.crew.begin(0.0))

    def carry_out(self, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case Fork(member):
                    assert member not in self.running
                    self.running.add(member)
                case Signal(member):
                    assert member in self.running
                case End(code):
                    assert not self.running
                    self.codes.append(code)

    def exit(self, which: int, code: int) -> None:
        if self.running:
            member = sorted(self.running)[which % len(self.running)]
            self.running.discard(member)
            self.carry_out(self.crew.exited(member, code, self.now))

    def stop(self) -> None:
        if not self.codes and not self.crew.stopping:
            self.carry_out(self.crew.stop(self.now))
        while self.running:
            self.exit(0, 0)


@given(
    gateways=st.integers(1, 4),
    events=st.lists(st.tuples(st.integers(0, 4), st.sampled_from([0, 1, 2, -9, -15]), st.floats(0, 20)), max_size=40),
)
def test_no_process_runs_twice_and_a_stopped_router_ends(gateways: int, events: list[tuple[int, int, float]]) -> None:
    processes = Processes(gateways)
    for which, code, passed in events:
        processes.now += passed
        processes.carry_out(processes.crew.due(processes.now))
        processes.exit(which, code)
    processes.stop()

    assert len(processes.codes) == 1
