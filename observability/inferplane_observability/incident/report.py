"""Everything around a moment in order of time, and what it comes to."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from inferplane_observability.incident.breach import Breach, breaches
from inferplane_observability.incident.causes import AFTER_S, BEFORE_S, Cause, Finding, findings
from inferplane_observability.incident.happening import Happening, Kind

_SAME_S = 3.0
"""Router processes and agents tell the same thing within this time."""


@dataclass(frozen=True, slots=True)
class Explained:
    """A breach with what explains it, the likeliest first."""

    breach: Breach
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """What happened from `since` to `until`, in seconds since 1970."""

    since: float
    until: float
    timeline: tuple[Happening, ...]
    """Without samples of load."""
    explained: tuple[Explained, ...]
    """Breaches that lie in the window, or reach into it."""
    suspects: tuple[Finding, ...] = ()
    """Where no objective was missed: what went wrong all the same."""


def report(happenings: Iterable[Happening], *, at: float, around_s: float) -> Report:
    """Look `around_s` to both sides of `at`."""
    known = sorted(happenings, key=lambda it: it.at)
    since, until = at - around_s, at + around_s
    near = [it for it in known if since - BEFORE_S <= it.at <= until + AFTER_S]
    found = [it for it in breaches(near) if it.began <= until and it.ended >= since]
    explained = tuple(Explained(breach, tuple(findings(near, breach))) for breach in found)
    told = [it for it in near if it.kind is not Kind.LOAD and since <= it.at <= until]
    suspects = () if explained else _suspects(near, at)
    return Report(since, until, tuple(_once(told)), explained, suspects)


def _suspects(near: Sequence[Happening], at: float) -> tuple[Finding, ...]:
    """Ask the rules as if every service had been missing its objective at that moment."""
    services = sorted({it.service for it in near if it.service}) or [""]
    asked = [finding for name in services for finding in findings(near, Breach(name, at, at, met=0, missed=1))]
    return tuple(finding for finding in asked if finding.cause is not Cause.UNKNOWN)


def _once(timeline: Sequence[Happening]) -> list[Happening]:
    kept: list[Happening] = []
    seen: dict[tuple[str, str, str], float] = {}
    for it in timeline:
        key = (it.kind, it.worker, it.detail)
        if it.at - seen.get(key, float("-inf")) > _SAME_S:
            kept.append(it)
        seen[key] = it.at
    return kept
