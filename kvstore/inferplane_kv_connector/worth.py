"""Whether what the store has is worth fetching: only when it comes sooner than the engine would compute it.

Problem: a slow disk or a far Redis can be slower than the engine, and which is faster changes with load and hardware.
Idea: both sides are measured where they happen.  A step's tokens and time give the seconds per computed token; a load's
blocks and time give the seconds per block of each tier, corrected a little with every load.  Loads run one after the
other, so what waits ahead counts as well.  Of the blocks found, the beginning is taken that gains most.
Trade-off: linear in tokens, so long prompts, whose attention costs more, are fetched a little too seldom; and while
nothing was measured everything is fetched.  One refusal in `PROBE` is fetched nevertheless, or a tier that was slow
once would stay so for ever.
Invariant: a decision changes how soon an answer comes and never what it says.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

PROBE: Final = 16
LEAST_TOKENS: Final = 64
"""Smaller steps say little of the time per token."""
_GAIN: Final = 0.2
_LOAD_GAIN: Final = 0.3
_MOST_STEPS: Final = 64


@dataclass(slots=True)
class _Loading:
    tiers: dict[str, int]
    began: float
    expected_s: float


@dataclass(slots=True)
class Worth:
    """Not thread-safe: the scheduler's."""

    block_size: int
    """Tokens."""
    always: bool = False
    """Fetch whatever it costs; what it costs is measured all the same."""
    token_s: float | None = None
    """Seconds per computed token; None: not measured."""
    block_s: dict[str, float] = field(default_factory=dict[str, float])
    """Seconds per block by tier, as measured."""
    fetched: int = 0
    """Blocks that were worth it."""
    declined: int = 0
    """Blocks that were there and left to the engine."""
    _refusals: int = 0
    _steps: deque[tuple[int, float]] = field(default_factory=lambda: deque[tuple[int, float]](maxlen=_MOST_STEPS))
    _stepped_at: float = 0.0
    _loads: dict[str, _Loading] = field(default_factory=dict[str, _Loading])
    _loaded_at: float = 0.0

    def choose(self, tiers: Sequence[str]) -> int:
        """Return how many of these blocks to fetch, from the first; each is named by where it lies."""
        best = self._best(tiers)
        if not best and tiers:
            self._refusals += 1
            if self._refusals % PROBE == 0:
                best = len(tiers)
        self.fetched += best
        self.declined += len(tiers) - best
        return best

    def expect(self, tiers: Sequence[str]) -> float:
        """Return the seconds until these blocks would be there, those that wait ahead included."""
        return sum(load.expected_s for load in self._loads.values()) + self._cost(_counted(tiers))

    # ---------------------------------------------------------------- what happened

    def step_began(self, tokens: int, now: float) -> None:
        self._steps.append((tokens, now))

    def step_ended(self, now: float) -> None:
        """Note the end of the oldest step that has not ended; steps may overlap."""
        if not self._steps:
            return
        tokens, began = self._steps.popleft()
        took = now - max(began, self._stepped_at)
        self._stepped_at = now
        if tokens >= LEAST_TOKENS:
            seen = took / tokens
            self.token_s = seen if self.token_s is None else self.token_s + _GAIN * (seen - self.token_s)

    def load_began(self, request: str, tiers: Sequence[str], now: float) -> None:
        counted = _counted(tiers)
        self._loads[request] = _Loading(counted, now, self._cost(counted))

    def load_ended(self, request: str, now: float) -> None:
        """Correct what a block of each tier costs by how long this load took."""
        load = self._loads.pop(request, None)
        if load is None:
            return
        took = now - max(load.began, self._loaded_at)
        self._loaded_at = now
        total = sum(load.tiers.values())
        for tier in load.tiers:
            self.block_s.setdefault(tier, took / total)
        error = took - self._cost(load.tiers)
        weight = sum(count * count for count in load.tiers.values())
        for tier, count in load.tiers.items():
            self.block_s[tier] = max(0.0, self.block_s[tier] + _LOAD_GAIN * error * count / weight)

    def forget(self, request: str) -> None:
        """Drop a load whose request has gone."""
        self._loads.pop(request, None)

    def told(self) -> dict[str, Any]:
        """Return the figures that people see."""
        return {
            "tokenS": self.token_s,
            "blockS": dict(self.block_s),
            "blockTokens": self.block_size,
            "fetched": self.fetched,
            "declined": self.declined,
        }

    def _best(self, tiers: Sequence[str]) -> int:
        if self.always or self.token_s is None or any(tier not in self.block_s for tier in tiers):
            return len(tiers)
        saved = self.block_size * self.token_s
        gain, most, best = -self.expect(()), 0.0, 0
        for number, tier in enumerate(tiers, start=1):
            gain += saved - self.block_s[tier]
            if gain > most:
                most, best = gain, number
        return best

    def _cost(self, tiers: dict[str, int]) -> float:
        return sum(count * self.block_s.get(tier, 0.0) for tier, count in tiers.items())


def _counted(tiers: Sequence[str]) -> dict[str, int]:
    counted: dict[str, int] = {}
    for tier in tiers:
        counted[tier] = counted.get(tier, 0) + 1
    return counted
