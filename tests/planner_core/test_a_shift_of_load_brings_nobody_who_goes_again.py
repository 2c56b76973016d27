"""A load that changes once changes the plan once: whoever is asked for is not taken back when the change is over."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random

import pytest

from inferplane_engine.profiles import profile_named
from inferplane_planner.core.contract import Observations, Plan, Spec, State, Workers
from inferplane_planner.core.decide import Patience
from inferplane_planner.core.engine_model import CALIBRATED, EngineModel
from inferplane_planner.core.forecast import Settings
from inferplane_planner.core.solve import Bounds, Objective
from inferplane_planner.core.step import step
from inferplane_planner.core.times import EngineTimes
from inferplane_planner.observe.arrivals import Arrivals
from inferplane_planner.observe.events import Finished
from inferplane_planner.observe.window import Window

ENGINE = EngineTimes(profile_named("l40s-8b"), max_sequences=8)
SPEC = Spec(
    objective=Objective(ttft_s=2.0, tpot_s=0.1, percentile=0.9),
    prior=EngineModel(ENGINE, ENGINE, CALIBRATED),
    decode=Bounds(1, 6),
    prefill=Bounds(1, 6),
    max_devices=6,
    patience=Patience(down_delay_s=10.0, max_step=2),
    period_s=1.0,
    start_up_s=5.0,
    forecast=Settings(interval_s=1.0),
)
TOKEN_S = 0.025


@dataclass(frozen=True, slots=True)
class Shape:
    """Requests a second, tokens of a prompt and of an answer."""

    rate_per_s: float
    prompt: int
    answer: int


QUIET = Shape(0.6, 300, 20)
LONG_PROMPTS = Shape(2.0, 5000, 10)
LONG_ANSWERS = Shape(2.0, 200, 200)


@dataclass
class Service:
    """Answers take what an idle engine takes: a plan goes by lengths and rates, not by what it made of them."""

    rng: Random
    now: float = 0.0
    next_at: float = 0.0
    asked: int = 0
    running: list[tuple[float, Finished]] = field(default_factory=list[tuple[float, Finished]])
    arrivals: Arrivals = field(default_factory=lambda: Arrivals(1.0, 0.0))
    window: Window = field(default_factory=lambda: Window(15.0, 0.0))
    state: State = field(default_factory=State)
    plans: list[Plan] = field(default_factory=list[Plan])
    born: dict[str, list[float]] = field(default_factory=lambda: {"prefill": [0.0], "decode": [0.0]})

    def play(self, shape: Shape, seconds: int) -> list[Plan]:
        """Return the plans of a span of one shape."""
        self.arrivals.hear("router", self.now)
        for _ in range(seconds):
            for at in self._times(shape, self.now + 1.0):
                self._ask(shape, at)
            self.now += 1.0
            self._plan()
        return self.plans[-seconds:]

    def _times(self, shape: Shape, until: float) -> Iterator[float]:
        """Come at even distances, each a little late."""
        while self.next_at < until:
            yield self.next_at
            self.next_at += 1.0 / shape.rate_per_s + self.rng.expovariate(20.0)

    def _ask(self, shape: Shape, at: float) -> None:
        self.asked += 1
        self.arrivals.arrive(f"r{self.asked}", at)
        ttft_s, decode_s = 0.0001 * shape.prompt, TOKEN_S * shape.answer
        told = Finished(
            f"r{self.asked}",
            prompt=shape.prompt,
            cached=0,
            output=shape.answer,
            ttft_s=ttft_s,
            tpot_s=TOKEN_S,
            decode_s=decode_s,
            apart=True,
        )
        self.running.append((at + ttft_s + decode_s, told))

    def _plan(self) -> None:
        for end, told in sorted((each for each in self.running if each[0] <= self.now), key=lambda each: each[0]):
            self.window.finish(told, end)
        self.running = [each for each in self.running if each[0] > self.now]
        seen = Observations(
            prefill=self._workers("prefill"),
            decode=self._workers("decode"),
            counts=self.arrivals.take(self.now),
            sample=self.window.sample(self.now),
            burst=self.arrivals.burst,
        )
        self.state, plan = step(self.state, seen, SPEC, self.now)
        self.plans.append(plan)
        for role, wanted in (("prefill", plan.prefill), ("decode", plan.decode)):
            born = self.born[role]
            born += [self.now + SPEC.start_up_s] * (wanted - len(born))
            del born[wanted:]

    def _workers(self, role: str) -> Workers:
        born = self.born[role]
        return Workers(len(born), sum(at <= self.now for at in born))


def turns(counts: list[int]) -> list[int]:
    """Return the changes of a count, in order."""
    return [after - before for before, after in pairwise(counts) if after != before]


@pytest.mark.slow
@pytest.mark.timeout(600)  # hundreds of plans on a machine that may be busy
@pytest.mark.parametrize("seed", range(3))
def test_workers_only_come_to_a_load_that_grew_and_only_change_kind_with_one_that_shifted(seed: int) -> None:
    service = Service(Random(seed))
    service.play(QUIET, 15 + 3 * seed)
    grown = service.play(LONG_PROMPTS, 22 + seed)
    shifted = service.play(LONG_ANSWERS, 40)

    assert all(change > 0 for change in turns([plan.prefill for plan in grown]))
    assert turns([plan.decode for plan in grown]) == []
    assert all(change > 0 for change in turns([plan.decode for plan in shifted]))
    assert all(change < 0 for change in turns([plan.prefill for plan in shifted]))
    assert (shifted[0].prefill, shifted[0].decode) == (2, 1)
    assert (shifted[-1].prefill, shifted[-1].decode) == (1, 2)


@pytest.mark.slow
@pytest.mark.timeout(600)  # hundreds of plans on a machine that may be busy
def test_a_load_that_grows_once_only_brings_workers_when_it_has_been_known_for_a_while() -> None:
    service = Service(Random(20))
    quiet = service.play(QUIET, 90)
    grown = service.play(LONG_ANSWERS, 45)

    assert {(plan.prefill, plan.decode) for plan in quiet} == {(1, 1)}
    assert turns([plan.decode for plan in grown]) == [1]
    assert turns([plan.prefill for plan in grown]) == []
