"""What a workload asks of a fleet: its busiest rate, its lengths, and how much of it a cache would have."""

import pytest

from inferplane_planner.workload import workload
from inferplane_planner.workload.open_loop import Ends
from inferplane_simulator.errors import ScenarioError
from inferplane_simulator.load import listen, load_of
from inferplane_simulator.testing import Written, request


def shared(count: int, every_s: float = 1.0) -> Written:
    """Write requests of one beginning of 128 tokens and 40 of their own."""
    return Written([request(at, at * every_s, (1, 128), (100 + at, 40)) for at in range(count)])


def test_all_but_the_first_find_the_beginning_that_they_share() -> None:
    heard = listen(shared(4), block_tokens=64, answer_s=1.0)

    assert [each.cached for each in heard] == [0, 128, 128, 128]
    assert {each.prompt for each in heard} == {168}


def test_the_rate_is_that_of_the_busiest_minutes() -> None:
    quiet = [request(at, at * 10.0, (at, 20)) for at in range(60)]
    busy = [request(60 + at, 600.0 + at, (60 + at, 20)) for at in range(60)]
    load = load_of(listen(Written(quiet + busy), block_tokens=16, answer_s=1.0), hit_share=1.0, busiest_s=60.0)

    assert load.demand.rate_per_s == pytest.approx(1.0, rel=0.05)
    assert load.mean_per_s == pytest.approx(119 / 659, rel=0.01)


@pytest.mark.parametrize(("share", "expected"), [(0.0, 0), (0.5, 15), (1.0, 30)])
def test_so_many_of_those_that_could_hit_do(share: float, expected: int) -> None:
    load = load_of(listen(shared(40), block_tokens=64, answer_s=1.0), hit_share=share)

    assert int((load.demand.cached > 0).sum()) == expected


def test_sessions_go_on_after_their_answers() -> None:
    heard = listen(workload("agents", 0.5, seed=3, ends=Ends(requests=60)), block_tokens=64, answer_s=2.0)

    assert len(heard) == 60
    assert sorted(each.at_s for each in heard) == [each.at_s for each in heard]


def test_too_few_requests_are_refused_with_the_fix() -> None:
    with pytest.raises(ScenarioError, match="say nothing of a rate"):
        load_of(listen(shared(3), block_tokens=64, answer_s=1.0), hit_share=1.0)
