"""Back-off of crashed children: pure values."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from inferplane_operator.local.backoff import RestartHistory, RestartPolicy, restart_delay

STEADY = RestartPolicy(first_s=1, limit_s=8, factor=2, jitter=0, healthy_after_s=60, loop_after=3)


def delays(lives: list[float], policy: RestartPolicy = STEADY) -> list[float]:
    history = RestartHistory()
    result: list[float] = []
    for lived_s in lives:
        history = history.after_death(policy, lived_s=lived_s)
        result.append(restart_delay(policy, history, Random(0)))
    return result


def test_delays_double_up_to_the_limit() -> None:
    assert delays([0, 0, 0, 0, 0, 0]) == [1, 2, 4, 8, 8, 8]


def test_a_healthy_life_resets_the_delay() -> None:
    assert delays([0, 0, 60, 0]) == [1, 2, 1, 2]


def test_three_quick_deaths_are_a_crash_loop_and_a_healthy_life_ends_it() -> None:
    history = RestartHistory()
    for _ in range(3):
        history = history.after_death(STEADY, lived_s=1)
    assert history.crash_looping(STEADY)

    history = history.after_death(STEADY, lived_s=100)

    assert not history.crash_looping(STEADY)
    assert history.restarts == 4


@settings(deadline=None)
@given(st.integers(0, 10_000), st.integers(0, 2**32))
def test_jitter_stays_within_its_share_of_the_limit(deaths: int, seed: int) -> None:
    policy = RestartPolicy()

    delay = restart_delay(policy, RestartHistory(deaths, deaths), Random(seed))

    assert policy.first_s * (1 - policy.jitter) <= delay <= policy.limit_s * (1 + policy.jitter)
