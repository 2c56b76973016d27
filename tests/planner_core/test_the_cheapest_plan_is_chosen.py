"""The search against trying everything."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferplane_planner.core.demand import Demand
from inferplane_planner.core.errors import PlanningError
from inferplane_planner.core.predict import Candidate, Prediction
from inferplane_planner.core.solve import Bounds, Limits, Objective, largest, solve

OBJECTIVE = Objective(ttft_s=1.0, tpot_s=0.05)


def model(prefill_load: float, decode_load: float, *, coupling: float = 0.0) -> "Model":
    return Model(prefill_load, decode_load, coupling)


class Model:
    """TTFT falls with prefill workers (and a little with decode workers), TPOT with decode workers."""

    def __init__(self, prefill_load: float, decode_load: float, coupling: float) -> None:
        self._prefill_load = prefill_load
        self._decode_load = decode_load
        self._coupling = coupling

    def __call__(self, candidate: Candidate) -> Prediction:
        first = candidate.prefill or candidate.decode
        ttft = 0.2 + self._coupling / max(1, candidate.decode) + _queue(self._prefill_load, first)
        tpot = 0.02 + 0.02 * _queue(self._decode_load, candidate.decode)
        return Prediction(ttft, tpot, 1.0, self._prefill_load / max(1, first), 0.5)


def _queue(load: float, servers: int) -> float:
    return math.inf if load >= servers else load / servers / (servers - load)


@given(
    st.floats(0.1, 12.0),
    st.floats(0.1, 12.0),
    st.floats(0.0, 2.0),
    st.floats(0.5, 3.0),
    st.one_of(st.none(), st.integers(2, 30)),
)
def test_nothing_cheaper_would_do(
    prefill_load: float, decode_load: float, coupling: float, price: float, devices: int | None
) -> None:
    predict = model(prefill_load, decode_load, coupling=coupling)
    limits = Limits(Bounds(1, 14, cost=price), Bounds(1, 14), max_devices=devices)
    choice = solve(predict, OBJECTIVE, limits)
    every = [Candidate(p, d) for p in range(1, 15) for d in range(1, 15) if limits.allows(Candidate(p, d))]
    good = [each for each in every if OBJECTIVE.met(predict(each))]

    assert choice.met == bool(good)
    assert limits.allows(choice.candidate)
    if good:
        assert limits.cost(choice.candidate) == pytest.approx(min(limits.cost(each) for each in good))
    else:
        assert OBJECTIVE.overrun(choice.prediction) == min(OBJECTIVE.overrun(predict(each)) for each in every)


def test_an_aggregated_service_has_decode_workers_alone() -> None:
    choice = solve(model(3.0, 2.0), OBJECTIVE, Limits(Bounds(1, 20)))

    assert choice.met
    assert choice.candidate.prefill == 0
    assert not OBJECTIVE.met(model(3.0, 2.0)(Candidate(0, choice.candidate.decode - 1)))


def test_what_an_objective_would_take_is_said_when_the_budget_is_too_small() -> None:
    choice = solve(model(6.0, 6.0), OBJECTIVE, Limits(Bounds(1, 20), Bounds(1, 20), max_devices=10))

    assert not choice.met
    assert choice.would_take is not None
    assert choice.would_take.prefill + choice.would_take.decode > 10


@given(st.integers(1, 8), st.integers(1, 8), st.integers(0, 3), st.integers(2, 16), st.integers(1, 3))
def test_whatever_is_allowed_is_no_more_than_one_of_the_largest(
    prefill: int, decode: int, least: int, devices: int, each_takes: int
) -> None:
    bounds = Bounds(min(least, prefill), prefill, devices=each_takes), Bounds(min(least, decode), decode)
    limits = Limits(bounds[1], bounds[0], max_devices=devices)
    found = largest(limits)
    allowed = [Candidate(p, d) for p in range(prefill + 1) for d in range(decode + 1) if _allowed(limits, p, d)]

    assert set(found) <= set(allowed)
    for one in allowed:
        assert any(one.prefill <= most.prefill and one.decode <= most.decode for most in found)
    for one in found:
        assert not any(one != most and one.prefill <= most.prefill and one.decode <= most.decode for most in found)


def _allowed(limits: Limits, prefill: int, decode: int) -> bool:
    assert limits.prefill is not None
    enough = prefill >= limits.prefill.least and decode >= limits.decode.least
    return enough and limits.allows(Candidate(prefill, decode))


def test_an_objective_that_no_number_of_workers_meets_is_said_to_be_so() -> None:
    def slow(candidate: Candidate) -> Prediction:
        del candidate
        return Prediction(3.0, 0.1, 0.0, 0.1, 0.1)

    choice = solve(slow, OBJECTIVE, Limits(Bounds(1, 4), Bounds(1, 4)))

    assert not choice.met
    assert choice.would_take is None
    assert choice.candidate == Candidate(1, 1)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        pytest.param(lambda: Objective(0.0, 0.1), "slo: 0 s", id="limit"),
        pytest.param(lambda: Objective(1.0, 0.1, percentile=95), "percentile: 95 is not a share", id="percentile"),
        pytest.param(lambda: Bounds(3, 2), "replicas: 3..2 is empty", id="bounds"),
        pytest.param(
            lambda: solve(model(1, 1), OBJECTIVE, Limits(Bounds(2, 4), Bounds(2, 4), max_devices=3)),
            "budget: 2P:2D takes 4 devices",
            id="budget",
        ),
        pytest.param(lambda: Demand(-1.0, np.ones(1), np.ones(1), np.ones(1)), "rate: -1.0", id="rate"),
        pytest.param(lambda: Demand(1.0, np.ones(0), np.ones(0), np.ones(0)), "sample: holds no", id="sample"),
        pytest.param(
            lambda: Demand(1.0, np.array([math.nan]), np.ones(1), np.ones(1)), "uncached: holds a value", id="nan"
        ),
        pytest.param(lambda: Demand(1.0, np.ones(1), np.ones(1), np.zeros(1)), "output: holds a value", id="empty"),
    ],
)
def test_what_no_plan_can_be_made_from_is_named(make: "object", words: str) -> None:
    assert callable(make)
    with pytest.raises(PlanningError, match=words):
        make()
