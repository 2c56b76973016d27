"""Whether the agent takes requests: a small machine of phases.

Problem: a drain must lose nothing, although routers learn of it only a moment later.  Idea: after the drain has begun
the gate stays open for a grace period, then refuses in a way that is safe to retry elsewhere.
Invariant: a refused request has not reached the engine.
"""

from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Final

from inferplane_workers.agent.errors import RefusedError


class Phase(IntEnum):
    """Values of the wire's Phase."""

    STARTING = 1
    READY = 2
    DRAINING = 3
    FAILED = 4


TRANSITIONS: Final[Mapping[Phase, frozenset[Phase]]] = {
    Phase.STARTING: frozenset((Phase.READY, Phase.DRAINING, Phase.FAILED)),
    Phase.READY: frozenset((Phase.STARTING, Phase.DRAINING, Phase.FAILED)),
    Phase.FAILED: frozenset((Phase.STARTING, Phase.DRAINING)),
    Phase.DRAINING: frozenset(),
}
"""A drain is final: what drains is about to end."""


class Gate:
    """Holds the phase; `on_change` hears every change."""

    __slots__ = ("_grace_s", "_now", "_on_change", "_shut_at", "detail", "phase", "restart")

    def __init__(self, *, now: Callable[[], float], grace_s: float, on_change: Callable[[Phase, str], None]) -> None:
        self._now = now
        self._grace_s = grace_s
        self._on_change = on_change
        self._shut_at = 0.0
        self.phase = Phase.STARTING
        self.detail = "the engine has not answered yet"
        self.restart = False
        """The engine runs, but only a new start would help: whoever supervises it may end it."""

    def move(self, phase: Phase, detail: str = "", *, restart: bool = False) -> bool:
        """Change the phase if the table allows it."""
        if phase is self.phase:
            self.restart = restart
            if detail != self.detail:
                self.detail = detail
                self._on_change(phase, detail)
            return True
        if phase not in TRANSITIONS[self.phase]:
            return False
        if phase is Phase.DRAINING:
            # An engine that was not taking requests has no router to wait for.
            self._shut_at = self._now() + (self._grace_s if self.phase is Phase.READY else 0.0)
        self.phase = phase
        self.detail = detail
        self.restart = restart
        self._on_change(phase, detail)
        return True

    def refusal(self) -> RefusedError | None:
        """Say why a request is not taken, or None."""
        if self.phase is Phase.READY:
            return None
        if self.phase is Phase.DRAINING:
            if self._now() < self._shut_at:
                return None
            return RefusedError("this worker is draining")
        return RefusedError(f"this worker takes no requests: {self.detail}")
