"""Starts take their time, crashes lose what clients have begun to read and nothing else, drains lose nothing."""

from collections.abc import Mapping

import pytest

from inferplane_api.catalogue import WorkerRole
from inferplane_simulator import Crash, Scenario, ScenarioError, Simulation, Slo
from inferplane_simulator.journey import End
from inferplane_simulator.scaling import Served, Staff
from inferplane_simulator.testing import Written, apart, pool, request

SLO = Slo(ttft_s=0.5, tpot_s=0.05)


class Steps:
    """Asks for given numbers of decode workers, one after the other."""

    period_s = 2.0

    def __init__(self, *wanted: int) -> None:
        self._wanted = list(wanted)
        self.staffs: list[Staff] = []
        self.arrivals = 0
        self.answers: list[Served] = []

    def arrived(self, at_s: float) -> None:
        assert at_s >= 0
        self.arrivals += 1

    def served(self, answer: Served) -> None:
        self.answers.append(answer)

    def plan(self, staff: Mapping[WorkerRole, Staff], now: float) -> Mapping[WorkerRole, int]:
        del now
        self.staffs.append(staff[WorkerRole.DECODE])
        return {WorkerRole.DECODE: self._wanted.pop(0)} if self._wanted else {}


def steady(seconds: int, per_s: int = 10) -> Written:
    return Written([request(number, 0.05 + number / per_s, (number, 300)) for number in range(seconds * per_s)])


def test_a_worker_that_is_asked_for_starts_before_it_serves() -> None:
    scaler = Steps(2)
    outcome = Simulation(
        Scenario((pool(1),), slo=SLO, max_model_len=1024, start_up_s=3.0), steady(12), scaler=scaler
    ).run()

    assert [(each.ready, each.starting) for each in scaler.staffs[:4]] == [(1, 0), (1, 1), (2, 0), (2, 0)]
    assert [len(each.engines) for each in scaler.staffs[:4]] == [1, 1, 2, 2]
    assert scaler.arrivals == len(scaler.answers) == outcome.ended[End.ANSWERED] == 120
    assert outcome.scale_events == 1
    assert outcome.gpu_hours * 3600 == pytest.approx(outcome.seconds * 2 - 2.0, abs=0.2)


def test_a_worker_that_goes_finishes_what_it_has() -> None:
    simulation = Simulation(Scenario((pool(3),), slo=SLO, max_model_len=1024), steady(8), scaler=Steps(3, 1))
    outcome = simulation.run()

    assert outcome.ended[End.ANSWERED] == 80
    assert len(simulation.fleet.workers) == 1


@pytest.mark.parametrize("victim", ["decode-0", "prefill-0"])
def test_a_crash_breaks_only_answers_that_had_begun(victim: str) -> None:
    scenario = Scenario(apart(2, 2), slo=SLO, max_model_len=1024, crashes=(Crash(2.0, victim),), start_up_s=1.0)
    outcome = Simulation(scenario, steady(12, per_s=40)).run()

    assert outcome.ended[End.ANSWERED] + outcome.ended[End.BROKEN] == outcome.requests == 480
    assert outcome.ended[End.BROKEN] <= (5 if victim == "decode-0" else 0)


def test_a_crash_of_nobody_names_who_there_is() -> None:
    scenario = Scenario((pool(1),), crashes=(Crash(1.0, "decode-7"),))

    with pytest.raises(ScenarioError, match=r"crash.worker.*decode-0"):
        Simulation(scenario, steady(1)).run()
