"""Scalers that look at each pool by itself: one rule for a count, held within bounds."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from inferplane_api.catalogue import WorkerRole
from inferplane_simulator.scaling import Served, Staff


@dataclass(frozen=True, slots=True)
class Span:
    """Least and most workers of a pool."""

    least: int
    most: int

    def hold(self, count: int) -> int:
        return max(self.least, min(self.most, count))


class Rule(Protocol):
    """Keeps what one pool's count depends on."""

    def wanted(self, staff: Staff, now: float) -> int: ...


@dataclass(slots=True)
class ByRole:
    """`make` makes a pool's own rule."""

    period_s: float
    span: Span
    make: Callable[[WorkerRole], Rule]
    _rules: dict[WorkerRole, Rule] = field(default_factory=dict[WorkerRole, Rule])

    def arrived(self, at_s: float) -> None:
        """Hear nothing: metrics of engines are all it goes by."""

    def served(self, answer: Served) -> None:
        """Hear nothing."""

    def plan(self, staff: Mapping[WorkerRole, Staff], now: float) -> Mapping[WorkerRole, int]:
        return {role: self.span.hold(self._rule(role).wanted(seen, now)) for role, seen in staff.items()}

    def _rule(self, role: WorkerRole) -> Rule:
        if role not in self._rules:
            self._rules[role] = self.make(role)
        return self._rules[role]
