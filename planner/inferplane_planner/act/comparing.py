"""Recorded plans against the plans that the same observations give now.

Problem.  A planner that was changed decides otherwise somewhere, and the records of a busy week tell where.
Idea.  Every step is made again from its recorded observations; what is compared is what would be carried out (workers
of each kind, lent ones) and the verdict.
Trade-off.  Observations are those that the recorded plans led to: after a first difference the rest answers "what would
this planner do in that situation", not "what would have happened".
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from inferplane_planner.act.journal import Decided, read
from inferplane_planner.act.resuming import knowing
from inferplane_planner.core.contract import Plan, State
from inferplane_planner.core.step import step


@dataclass(frozen=True, slots=True)
class Remade:
    """One decision, as it was recorded and as it is made now."""

    decided: Decided
    now: Plan

    @property
    def same_workers(self) -> bool:
        before = self.decided.plan
        return (before.prefill, before.decode, before.lent) == (self.now.prefill, self.now.decode, self.now.lent)

    @property
    def same(self) -> bool:
        return self.same_workers and self.decided.plan.verdict is self.now.verdict


def remake(path: Path) -> Iterator[Remade]:
    """Make every decision of a file again.  Raises OSError, ValueError (no JSON) and RecordError."""
    return remade(read(path))


def remade(decisions: Iterable[Decided]) -> Iterator[Remade]:
    states: dict[str, State] = {}
    for decided in decisions:
        begun = decided.first or decided.service not in states
        before = knowing(decided.forecast) if begun else states[decided.service]
        states[decided.service], plan = step(before, decided.observations, decided.spec, decided.now)
        yield Remade(decided, plan)
