"""Steps over time, with a demand that a test plays."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferplane_planner.core.decide import Decision, Memory, Move, Need, Now, Patience, decide
from inferplane_planner.core.predict import Candidate, Prediction
from inferplane_planner.core.solve import Choice

PATIENCE = Patience(down_delay_s=300.0, max_step=4)
FINE = Prediction(0.5, 0.02, 1.0, 0.5, 0.5)


def choice(candidate: Candidate, *, met: bool = True, would_take: Candidate | None = None) -> Choice:
    return Choice(candidate, FINE, met, would_take)


def need(soon: Candidate, lasting: Candidate | None = None, check: Callable[[Candidate], bool] | None = None) -> Need:
    return Need(choice(soon), choice(lasting or soon), check or (lambda _: True))


@dataclass
class Played:
    """Carries decisions out at once."""

    workers: Candidate
    at_s: float = 0.0
    memory: Memory = field(default_factory=Memory)
    decisions: list[Decision] = field(default_factory=list[Decision])

    def step(self, wanted: Need, *, seconds: float = 30.0) -> Decision:
        decision = decide(Now(self.at_s, self.workers), wanted, self.memory, PATIENCE)
        self.at_s += seconds
        self.workers, self.memory = decision.target, decision.memory
        self.decisions.append(decision)
        return decision


@given(st.integers(0, 30), st.integers(1, 30), st.integers(0, 30), st.integers(1, 30))
def test_a_constant_demand_gives_a_constant_plan(p: int, d: int, wanted_p: int, wanted_d: int) -> None:
    played = Played(Candidate(p, d))
    for _ in range(60):
        played.step(need(Candidate(wanted_p, wanted_d)))
    settled = len(played.decisions)
    for _ in range(60):
        played.step(need(Candidate(wanted_p, wanted_d)))

    assert played.workers == Candidate(wanted_p, wanted_d)
    assert all(each.move is Move.HOLD for each in played.decisions[settled:])


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 40)), min_size=1, max_size=60))
def test_no_step_is_longer_than_allowed_and_none_goes_below_what_is_needed_soon(
    wishes: Sequence[tuple[int, int]],
) -> None:
    played = Played(Candidate(5, 5))
    for p, d in wishes:
        before = played.workers
        after = played.step(need(Candidate(p, d))).target

        assert abs(after.prefill - before.prefill) <= PATIENCE.max_step
        assert abs(after.decode - before.decode) <= PATIENCE.max_step
        assert after.prefill >= min(before.prefill, p)
        assert after.decode >= min(before.decode, d)


def test_more_is_done_at_once_and_less_after_the_delay() -> None:
    played = Played(Candidate(2, 2))

    assert played.step(need(Candidate(3, 2))).move is Move.UP
    moves = [played.step(need(Candidate(1, 1), Candidate(1, 1))).move for _ in range(11)]

    assert moves[:10] == [Move.HOLD] * 10
    assert moves[10] is Move.DOWN
    assert played.workers == Candidate(1, 1)


def test_the_delay_and_the_peak_behind_it_are_waited_for_together() -> None:
    played = Played(Candidate(4, 4))
    moves = [played.step(need(Candidate(2, 2), Candidate(4, 4))).move for _ in range(10)]

    assert set(moves) == {Move.HOLD}
    assert played.decisions[-1].reason == "4P:4D is what the highest load of the last 300 s takes"
    assert played.step(need(Candidate(2, 2))).move is Move.DOWN


def test_a_peak_within_the_delay_begins_it_anew() -> None:
    played = Played(Candidate(4, 4))
    for _ in range(9):
        played.step(need(Candidate(2, 2)))
    played.step(need(Candidate(4, 4)))
    moves = [played.step(need(Candidate(2, 2))).move for _ in range(10)]

    assert set(moves) == {Move.HOLD}


def test_a_load_that_swings_faster_than_the_delay_moves_nothing() -> None:
    played = Played(Candidate(6, 6))
    for turn in range(100):
        played.step(need(Candidate(6, 6) if turn % 5 == 0 else Candidate(2, 2)))

    assert {each.move for each in played.decisions} == {Move.HOLD}


def test_workers_stay_where_the_rest_could_not_take_their_load() -> None:
    played = Played(Candidate(2, 2))
    for _ in range(30):
        played.step(need(Candidate(1, 1), check=lambda each: each.decode > 1))

    assert played.workers == Candidate(1, 2)
    assert "without room" in played.decisions[-1].reason


def test_one_pool_grows_while_the_other_shrinks() -> None:
    played = Played(Candidate(4, 2))
    for _ in range(11):
        played.step(need(Candidate(1, 2)))
    decision = decide(Now(played.at_s, Candidate(4, 2)), need(Candidate(1, 4)), Memory(less_since_s=0.0), PATIENCE)

    assert decision.move is Move.SHIFT
    assert decision.target == Candidate(1, 4)


def test_more_of_one_pool_is_explained_by_its_need_though_the_other_would_do_with_less() -> None:
    decision = Played(Candidate(2, 1)).step(need(Candidate(1, 2)))

    assert decision.target == Candidate(2, 2)
    assert decision.reason.startswith("1P:2D keeps the objective")


def test_a_worker_that_waits_for_a_device_keeps_more_from_being_asked_for() -> None:
    now = Now(1000.0, Candidate(2, 2), pending_since_s=100.0)
    decision = decide(now, need(Candidate(4, 4)), Memory(), PATIENCE)

    assert decision.move is Move.HOLD
    assert "waiting for a device" in decision.reason


def test_a_pool_that_somebody_else_scales_is_left_alone() -> None:
    decision = decide(Now(0.0, Candidate(2, 2), owned_by="kubectl"), need(Candidate(9, 9)), Memory(), PATIENCE)

    assert decision.target == Candidate(2, 2)
    assert decision.reason == "kubectl sets the replicas"


def test_a_clock_that_jumps_back_only_begins_the_delay_anew() -> None:
    now = Now(50.0, Candidate(3, 3))
    decision = decide(now, need(Candidate(1, 1)), Memory(less_since_s=10_000.0), PATIENCE)

    assert decision.move is Move.HOLD
    assert decision.memory.less_since_s == 50.0


@pytest.mark.parametrize(
    ("soon", "words"),
    [
        pytest.param(choice(Candidate(3, 3), met=False), "no number of workers", id="never"),
        pytest.param(choice(Candidate(3, 3), met=False, would_take=Candidate(9, 9)), "would take 9P:9D", id="limited"),
        pytest.param(choice(Candidate(3, 3)), "keeps the objective: TTFT 0.50 s", id="met"),
    ],
)
def test_the_reason_says_what_it_would_take(soon: Choice, words: str) -> None:
    decision = decide(Now(0.0, Candidate(1, 1)), Need(soon, soon, lambda _: True), Memory(), PATIENCE)

    assert words in decision.reason
    assert decision.target == Candidate(3, 3)
