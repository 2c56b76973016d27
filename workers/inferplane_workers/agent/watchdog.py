"""Is the engine alive, slow, or hung?  Pure: it is told what was seen, and judges.

Problem: a hung engine answers its health route from another thread or process, and a busy one answers late.  Idea: what
counts is work: bytes, block events or token counters that move while requests are in force.  Trade-off: a hang is
noticed after `hang_s`, not at once.  Invariant: an engine that makes progress is never judged hung.
"""

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """What the signs say."""

    ALIVE = "alive"
    GONE = "gone"
    """Nothing listens, or the engine says of itself that it is dead."""
    HUNG = "hung"
    SILENT = "silent"
    """No sign of life, but not for long enough."""


@dataclass(frozen=True, slots=True)
class Signs:
    """What was seen; moments on one clock."""

    now: float
    in_flight: int
    busy_since: float
    """When requests came to be in force after there were none."""
    progress_at: float
    healthy_at: float
    refused: int = 0
    """Health questions in a row to which nothing listened, or whose answer was an error."""


def judge(signs: Signs, *, hang_s: float, refusals: int = 2) -> Verdict:
    """Weigh the signs."""
    if signs.refused >= refusals:
        return Verdict.GONE
    if signs.in_flight:
        quiet = signs.now - max(signs.progress_at, signs.busy_since)
        if quiet > hang_s:
            return Verdict.HUNG
        return Verdict.ALIVE if quiet <= hang_s / 2 else Verdict.SILENT
    quiet = signs.now - max(signs.healthy_at, signs.progress_at)
    if quiet > hang_s:
        return Verdict.HUNG
    return Verdict.ALIVE if quiet <= hang_s / 2 else Verdict.SILENT
