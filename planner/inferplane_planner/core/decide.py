"""From what would be best now to what is done now: steps, delays, doubts.

Problem.  A plan that follows every wish of the moment starts and drains workers all day, and starting one takes
minutes; a plan that hesitates misses the objective.
Idea.  Two questions with different patience.  Up: what does the highest demand until a new worker could be there take?
That is done at once.  Down: what does the highest demand of the last while, and of the next, take?  That is done when
the first has been less for `down_delay_s` on end (the second looks as far back by itself, so the two waits are one),
and only if those that stay would keep the objective with room to spare.
Trade-off.  A load that swings faster than the delay is served at its peaks.
Invariants.  A constant demand gives a constant plan.  A step never takes more than `max_step` workers of a pool.  A
pool that somebody else scales is left alone.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum

from inferplane_planner.core.predict import Candidate
from inferplane_planner.core.solve import Choice


class Move(StrEnum):
    """What a decision does; a word for metrics."""

    HOLD = "hold"
    UP = "up"
    DOWN = "down"
    SHIFT = "shift"
    """One pool grows and the other shrinks."""


@dataclass(frozen=True, slots=True)
class Patience:
    """Times in seconds."""

    down_delay_s: float = 300.0
    max_step: int = 4
    room: float = 0.9
    """Before workers go, the rest must keep the objective at the demand divided by this."""
    pending_s: float = 120.0
    """A worker that waits for a device this long keeps more from being asked for."""


@dataclass(frozen=True, slots=True)
class Now:
    """What is there; times on the planner's clock in seconds."""

    at_s: float
    workers: Candidate
    """Workers wanted at present, ready or not."""
    pending_since_s: float | None = None
    """Since when the longest-waiting worker has had no device; None: none waits."""
    owned_by: str = ""
    """Who else set the replicas last; "" when the planner did."""


@dataclass(frozen=True, slots=True)
class Need:
    """What the two questions were answered with; `check` says whether a candidate keeps the objective with room."""

    soon: Choice
    """For the highest demand until a new worker could be ready."""
    lasting: Choice
    """For the highest demand of the delay behind and the horizon ahead."""
    check: Callable[[Candidate], bool]


@dataclass(frozen=True, slots=True)
class Memory:
    """What is carried from one decision to the next."""

    less_since_s: float | None = None
    """Since when fewer workers would have done."""


@dataclass(frozen=True, slots=True)
class Decision:
    target: Candidate
    move: Move
    reason: str
    memory: Memory


def decide(now: Now, need: Need, memory: Memory, patience: Patience) -> Decision:
    """Decide one step."""
    here = now.workers
    if now.owned_by:
        return Decision(here, Move.HOLD, f"{now.owned_by} sets the replicas", Memory())
    up = _highest(here, need.soon.candidate)
    less = _lowest(up, _highest(need.lasting.candidate, need.soon.candidate))
    fewer_now = _lowest(up, need.soon.candidate) != up
    memory = replace(memory, less_since_s=_since(memory.less_since_s, now.at_s) if fewer_now else None)
    if up != here and _stuck(now, patience):
        return Decision(here, Move.HOLD, f"{up} is needed, but a worker has been waiting for a device", memory)
    if less == up:
        if up != here or not need.soon.met:
            return _stepped(here, up, memory, patience, _why_up(need))
        peak = f"the highest load of the last {patience.down_delay_s:.0f} s" if fewer_now else "it"
        return _stepped(here, up, memory, patience, f"{here} is what {peak} takes")
    waited = now.at_s - _since(memory.less_since_s, now.at_s)
    if waited < patience.down_delay_s:
        later = f"{less} would do, once it has for {patience.down_delay_s:.0f} s"
        return _stepped(here, up, memory, patience, later if up == here else _why_up(need))
    return _down(here, need, memory, patience, up=up, less=less)


def _down(
    here: Candidate, need: Need, memory: Memory, patience: Patience, *, up: Candidate, less: Candidate
) -> Decision:
    """Take workers away, as many as those that stay can do without."""
    target = _limited(here, less, patience.max_step)
    for candidate in _between(up, target):
        if need.check(candidate):
            begun_anew = Memory() if candidate == less else memory
            return _stepped(here, candidate, begun_anew, patience, f"{less} has been enough for long")
    return _stepped(here, up, memory, patience, f"{less} would do, but without room to spare")


def _between(up: Candidate, target: Candidate) -> list[Candidate]:
    """Return what may be tried, fewest workers first."""
    tries = [
        Candidate(prefill, decode)
        for prefill in range(target.prefill, up.prefill + 1)
        for decode in range(target.decode, up.decode + 1)
    ]
    return sorted((each for each in tries if each != up), key=lambda each: each.prefill + each.decode)


def _stepped(here: Candidate, wanted: Candidate, memory: Memory, patience: Patience, reason: str) -> Decision:
    target = _limited(here, wanted, patience.max_step)
    more = target.prefill > here.prefill or target.decode > here.decode
    fewer = target.prefill < here.prefill or target.decode < here.decode
    if more and fewer:
        return Decision(target, Move.SHIFT, reason, memory)
    if more or fewer:
        return Decision(target, Move.UP if more else Move.DOWN, reason, memory)
    return Decision(here, Move.HOLD, reason, memory)


def _limited(here: Candidate, wanted: Candidate, most: int) -> Candidate:
    def near(now: int, then: int) -> int:
        return max(now - most, min(now + most, then))

    return Candidate(near(here.prefill, wanted.prefill), near(here.decode, wanted.decode))


def _highest(one: Candidate, other: Candidate) -> Candidate:
    return Candidate(max(one.prefill, other.prefill), max(one.decode, other.decode))


def _lowest(one: Candidate, other: Candidate) -> Candidate:
    return Candidate(min(one.prefill, other.prefill), min(one.decode, other.decode))


def _since(before: float | None, at_s: float) -> float:
    """Return since when; a clock that jumped back begins the wait anew."""
    return at_s if before is None or before > at_s else before


def _stuck(now: Now, patience: Patience) -> bool:
    return now.pending_since_s is not None and now.at_s - now.pending_since_s >= patience.pending_s


def _why_up(need: Need) -> str:
    choice = need.soon
    if choice.met:
        return f"{choice.candidate} keeps the objective: TTFT {choice.prediction.ttft_s:.2f} s"
    if choice.would_take is None:
        return f"no number of workers keeps the objective; {choice.candidate} comes closest"
    return f"the objective would take {choice.would_take}; {choice.candidate} is what the limits allow"
