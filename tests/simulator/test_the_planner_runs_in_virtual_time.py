"""The production step at its seam: load comes and goes, workers follow."""

import numpy as np
import pytest

from inferplane_api.catalogue import WorkerRole
from inferplane_engine.profiles import profile_named
from inferplane_planner.workload.arrivals import Poisson, Steps
from inferplane_planner.workload.lengths import Fixed
from inferplane_planner.workload.open_loop import Ends, OpenLoop
from inferplane_planner.workload.shapes import Unshared
from inferplane_simulator import Outcome, PoolSpec, Scenario, ScenarioError, Simulation, Slo
from inferplane_simulator.planning import Planner, planner_for
from inferplane_simulator.scaling import Served, Staff


def planned(*steps: tuple[float, float], until_s: float) -> tuple[Planner, Outcome]:
    pool = PoolSpec(WorkerRole.DECODE, 1, profile_named("l40s-8b"))
    scenario = Scenario((pool,), slo=Slo(1.0, 0.1), max_model_len=8192, start_up_s=30.0, block_tokens=512)
    planner = planner_for(scenario, most=6)
    shape = OpenLoop(Poisson(Steps(steps)), Unshared(Fixed(4000)), Fixed(8), seed=3, ends=Ends(after_s=until_s))
    return planner, Simulation(scenario, shape, scaler=planner).run()


@pytest.mark.slow
@pytest.mark.timeout(300)  # thousands of events on a machine that may be busy
def test_workers_follow_a_step_of_load_up_and_the_slo_comes_back() -> None:
    planner, outcome = planned((0.0, 0.3), (120.0, 4.0), until_s=330.0)
    wanted = [plan.decode for plan in planner.plans]

    assert wanted[6] <= 2  # a second one while the load is known by few requests
    assert wanted[-1] > 2
    assert outcome.scale_events >= 1
    late = outcome.tracks["attainment"].values[int(240 / outcome.tracks["attainment"].width_s) :]
    assert np.nanmean(late) > 0.85


@pytest.mark.slow
@pytest.mark.timeout(300)  # thousands of events on a machine that may be busy
def test_a_constant_load_gives_constant_workers() -> None:
    planner, outcome = planned((0.0, 0.5), until_s=300.0)

    assert {plan.decode for plan in planner.plans[8:]} == {planner.plans[8].decode}
    assert outcome.scale_events <= 1


@pytest.mark.slow  # some fifty plans
def test_workers_go_when_the_rest_has_a_tenth_to_spare_since_the_engines_are_known() -> None:
    pool = PoolSpec(WorkerRole.DECODE, 1, profile_named("l40s-8b"))
    planner = planner_for(Scenario((pool,), slo=Slo(1.5, 0.1), start_up_s=30.0), most=8)
    workers = [played(planner, per_s=3.0, begin_s=0.0, until_s=150.0, workers=4)]
    workers.append(played(planner, per_s=1.0, begin_s=150.0, until_s=900.0, workers=workers[0]))
    room = planner_for(Scenario((pool,), slo=Slo(1.5, 0.1), start_up_s=30.0), most=8)
    alone = played(room, per_s=1.0 / 0.9, begin_s=0.0, until_s=150.0, workers=1)

    assert workers[0] > alone
    assert workers[1] <= alone


def played(planner: Planner, *, per_s: float, begin_s: float, until_s: float, workers: int) -> int:
    """Tell of requests at even distances, each answered at once, and return the workers at last."""
    for at_s in np.arange(begin_s, until_s, planner.period_s):
        for asked_s in at_s + np.arange(0.0, planner.period_s, 1.0 / per_s):
            planner.arrived(float(asked_s))
            planner.served(Served(float(asked_s), 4000, 0, 8, ttft_s=0.5, tpot_s=0.02))
        staff = {WorkerRole.DECODE: Staff(ready=workers, starting=0)}
        workers = planner.plan(staff, float(at_s) + planner.period_s)[WorkerRole.DECODE]
    return workers


def test_bounds_that_are_empty_are_refused() -> None:
    scenario = Scenario((PoolSpec(WorkerRole.DECODE, 1, profile_named("l40s-8b")),))

    with pytest.raises(ScenarioError, match=r"planner\.most"):
        planner_for(scenario, most=1, least=2)
