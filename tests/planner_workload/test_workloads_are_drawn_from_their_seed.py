"""Generated workloads: order, determinism, sharing, ends."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferplane_planner.workload import WORKLOADS, Day, Poisson, Ramp, Request, Steps, Workload, WorkloadError, workload
from inferplane_planner.workload.arrivals import Bursty, Constant, Rate
from inferplane_planner.workload.lengths import Cumulative, Fixed, LogNormal
from inferplane_planner.workload.open_loop import Ends, OpenLoop
from inferplane_planner.workload.prompts import Piece, Prompt, shared_tokens, text
from inferplane_planner.workload.sessions import Sessions, Talk
from inferplane_planner.workload.shapes import FlashCrowd, SharedPrefix, Unshared


def drawn(source: Workload, *, answer_s: float = 1.0, most: int = 200) -> list[Request]:
    """Take up to `most` requests; each is answered `answer_s` later."""
    requests: list[Request] = []
    open_answers: list[Request] = []
    while len(requests) < most:
        at_s = source.peek()
        done = [each for each in open_answers if at_s is None or each.at_s + answer_s <= at_s]
        if done:
            open_answers = [each for each in open_answers if each not in done]
            for each in done:
                source.finished(each, each.at_s + answer_s)
            continue
        if at_s is None:
            break
        requests.append(source.take())
        open_answers.append(requests[-1])
    return requests


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_seed_gives_the_same_requests_again_in_order_of_time(name: str) -> None:
    first, again, other = (drawn(workload(name, 2.0, seed=seed)) for seed in (1, 1, 2))

    assert first == again
    assert first != other
    assert [each.number for each in first] == list(range(200))
    assert [each.at_s for each in first] == sorted(each.at_s for each in first)
    assert all(each.prompt.tokens > 0 and each.output_tokens > 0 for each in first)


@pytest.mark.parametrize("name", ["saas", "code", "agents", "zipf-shift"])
def test_what_shares_beginnings_in_the_world_shares_them_here(name: str) -> None:
    requests = drawn(workload(name, 2.0, seed=1), most=400)

    best = [
        max((shared_tokens(each.prompt.pieces, former.prompt.pieces) for former in requests[:place]), default=0)
        for place, each in enumerate(requests)
    ]

    assert sum(best) > 0.3 * sum(each.prompt.tokens for each in requests)


def test_what_nobody_shares_shares_no_token() -> None:
    first, second = drawn(workload("reasoning", 1.0, seed=1), most=2)

    assert shared_tokens(first.prompt.pieces, second.prompt.pieces) == 0
    assert first.prompt.token_ids()[:8].tolist() != second.prompt.token_ids()[:8].tolist()


def test_an_end_by_number_or_by_time_is_kept() -> None:
    assert len(drawn(workload("saas", 5.0, seed=1, ends=Ends(requests=7)))) == 7
    assert all(each.at_s < 3.0 for each in drawn(workload("saas", 5.0, seed=1, ends=Ends(after_s=3.0))))
    assert len(drawn(workload("agents", 5.0, seed=1, ends=Ends(requests=7)))) == 7


@pytest.mark.parametrize(
    ("rate", "mean"),
    [
        pytest.param(Constant(5.0), 5.0, id="constant"),
        pytest.param(Ramp(0.0, 10.0, 400.0), 5.0, id="ramp"),
        pytest.param(Steps(((0.0, 2.0), (200.0, 8.0))), 5.0, id="steps"),
        pytest.param(Day(0.0, 10.0, 400.0), 5.0, id="day"),
    ],
)
def test_a_process_keeps_its_rate(rate: Rate, mean: float) -> None:
    times = Poisson(rate).times(np.random.default_rng(1))
    count = 0
    while next(times) < 400.0:
        count += 1

    assert count == pytest.approx(400.0 * mean, rel=0.1)


def test_bursts_have_the_mean_and_more_spread() -> None:
    times = Bursty(5.0, variation=3.0).times(np.random.default_rng(1))
    gaps = np.diff([next(times) for _ in range(4000)])

    assert gaps.mean() == pytest.approx(0.2, rel=0.2)
    assert gaps.std() / gaps.mean() == pytest.approx(3.0, rel=0.2)


def test_a_turn_repeats_the_whole_past_of_its_session() -> None:
    talk = Talk(turns=Fixed(3), question=Fixed(10), answer=Fixed(5), pause_s=1.0, system=Fixed(20))
    turns = drawn(Sessions(Poisson(Constant(1.0)), talk, seed=1, ends=Ends(requests=40)))
    mine = [each for each in turns if each.session == turns[0].session]

    assert [each.prompt.tokens for each in mine] == [30, 45, 60]
    assert mine[2].prompt.token_ids()[:30].tolist() == mine[0].prompt.token_ids().tolist()
    assert [later.at_s > former.at_s + 1.0 for former, later in pairwise(mine)] == [True, True]


def test_a_fork_sends_two_continuations_of_one_past() -> None:
    talk = Talk(turns=Fixed(20), question=Fixed(10), answer=Fixed(5), pause_s=1.0, fork=0.9)
    turns = drawn(Sessions(Poisson(Constant(0.1)), talk, seed=1), most=60)
    pasts = [each.prompt.pieces[:-1] for each in turns]

    assert any(pasts.count(past) == 2 and len(past) > 1 for past in pasts)


def test_nothing_is_sent_before_the_answer_that_it_waits_for() -> None:
    talk = Talk(turns=Fixed(2), question=Fixed(1), answer=Fixed(1), pause_s=0.001)
    source = Sessions(Poisson(Constant(1.0)), talk, seed=1, ends=Ends(requests=2))
    first = source.take()
    source.finished(first, 500.0)
    following = [source.take() for _ in range(1)]

    assert following[0].session != first.session or following[0].at_s > 500.0


def test_a_crowd_comes_and_goes() -> None:
    shape = FlashCrowd(Unshared(Fixed(50)), hot_tokens=100, share=0.9, begin_s=10.0, end_s=20.0)
    requests = drawn(OpenLoop(Poisson(Constant(20.0)), shape, Fixed(1), seed=1, ends=Ends(after_s=30.0)), most=1000)
    hot = [each.at_s for each in requests if len(each.prompt.pieces) == 2]

    assert hot
    assert min(hot) >= 10.0
    assert max(hot) < 20.0


def test_who_is_popular_changes_with_every_shift() -> None:
    shape = SharedPrefix(groups=10, prefix=Fixed(10), question=Fixed(1), skew=3.0, shift_s=100.0)
    rng = np.random.default_rng(1)

    def favourite(at_s: float) -> int:
        names = [shape.prompt(rng, number=0, at_s=at_s).pieces[0].name for _ in range(200)]
        return max(set(names), key=names.count)

    assert favourite(1.0) != favourite(101.0)


@given(st.integers(0, 2**40), st.integers(0, 300), st.integers(0, 300))
def test_the_beginning_of_a_text_is_the_text_of_that_length(name: int, short: int, more: int) -> None:
    assert text(name, short + more)[:short].tolist() == text(name, short).tolist()
    assert text(name, short).dtype == np.int32


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4)), max_size=5), st.data())
def test_shared_tokens_are_those_that_are_equal(pairs: list[tuple[int, int]], data: st.DataObject) -> None:
    one = Prompt(tuple(Piece(name, tokens) for name, tokens in pairs))
    cut = data.draw(st.integers(0, len(pairs)))
    other = Prompt((*one.pieces[:cut], Piece(99, 3)))

    said = shared_tokens(one.pieces, other.pieces)

    assert said == sum(tokens for _, tokens in pairs[:cut])
    assert one.token_ids()[:said].tolist() == other.token_ids()[:said].tolist()


def test_lengths_follow_a_cumulative_distribution() -> None:
    lengths = Cumulative.of([[100, 0.5], [1000, 0.9], [2000, 1.0]])
    rng = np.random.default_rng(1)
    values = np.array([lengths.draw(rng) for _ in range(4000)])

    assert np.mean(values <= 100) == pytest.approx(0.5, abs=0.05)
    assert np.mean(values <= 1000) == pytest.approx(0.9, abs=0.05)
    assert values.max() <= 2000


@pytest.mark.parametrize(
    ("make", "words"),
    [
        pytest.param(lambda: workload("nobody", 1.0, seed=1), "use one of saas", id="name"),
        pytest.param(lambda: workload("saas", 0.0, seed=1), "rate: 0 is not a positive number", id="rate"),
        pytest.param(lambda: workload("saas", float("nan"), seed=1), "rate: nan", id="nan"),
        pytest.param(lambda: Steps(((1.0, 2.0),)), "begin at 0", id="steps"),
        pytest.param(lambda: Day(3.0, 2.0), "low 3 is not within", id="day"),
        pytest.param(lambda: Cumulative.of([[100, 0.5]]), "shares do not rise to 1", id="cdf"),
        pytest.param(lambda: LogNormal(10, -1.0), "sigma: -1", id="sigma"),
        pytest.param(lambda: Fixed(0), "tokens: 0", id="length"),
    ],
)
def test_what_cannot_be_drawn_is_refused_by_name(make: "object", words: str) -> None:
    assert callable(make)
    with pytest.raises(WorkloadError, match=words):
        make()
