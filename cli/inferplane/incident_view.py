"""A report of an incident as text and as a document.  Pure."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from inferplane.moments import clock
from inferplane.table import Table
from inferplane_observability.incident.causes import Finding
from inferplane_observability.incident.happening import Happening
from inferplane_observability.incident.report import Explained, Report

_SHOWN = 3
"""Pieces of evidence."""


def conclusions(report: Report) -> Iterator[str]:
    """Say what was missed and why, the likeliest cause first."""
    for each in report.explained:
        yield from _explained(each)
    if report.explained:
        return
    yield f"No objective was missed between {clock(report.since)} and {clock(report.until)} UTC."
    if report.suspects:
        yield "What went wrong all the same:"
        yield from (f"  {it.cause.value}: {it.why}" for it in report.suspects)


def _explained(it: Explained) -> Iterator[str]:
    breach, (likeliest, *others) = it.breach, it.findings
    total = breach.met + breach.missed
    yield (
        f"{breach.service} missed its objective from {clock(breach.began)} to {clock(breach.ended)} UTC: "
        f"{breach.missed} of {total} streams ({breach.share:.0%})."
    )
    yield f"Likely cause: {likeliest.cause.value}: {likeliest.why}."
    yield from (f"  {clock(each.at)}  {_line(each)}" for each in likeliest.evidence[:_SHOWN])
    yield from (f"Also: {other.cause.value}: {other.why}." for other in others)


def timeline(report: Report) -> Table:
    rows = [[clock(it.at), "!" if it.bad else "", it.kind.value, it.worker, _detail(it)] for it in report.timeline]
    return Table(("time", "", "what", "worker", "detail"), rows)


def document(report: Report) -> dict[str, Any]:
    return {
        "since": _iso(report.since),
        "until": _iso(report.until),
        "breaches": [
            {
                "service": it.breach.service,
                "began": _iso(it.breach.began),
                "ended": _iso(it.breach.ended),
                "met": it.breach.met,
                "missed": it.breach.missed,
                "causes": [_cause(finding) for finding in it.findings],
            }
            for it in report.explained
        ],
        "suspects": [_cause(it) for it in report.suspects],
        "timeline": [_happening(it) for it in report.timeline],
    }


def _cause(it: Finding) -> dict[str, Any]:
    evidence = [_happening(each) for each in it.evidence]
    return {"cause": it.cause.value, "who": it.who, "why": it.why, "since": _iso(it.since), "evidence": evidence}


def _happening(it: Happening) -> dict[str, Any]:
    return {
        "at": _iso(it.at),
        "kind": it.kind.value,
        "service": it.service,
        "worker": it.worker,
        "detail": _detail(it),
        "bad": it.bad,
    }


def _line(it: Happening) -> str:
    return f"{it.worker}: {_detail(it)}" if it.worker else _detail(it)


def _detail(it: Happening) -> str:
    numbers = ", ".join(f"{name} {value:g}" for name, value in it.numbers.items())
    return f"{it.detail} ({numbers})" if numbers else it.detail


def _iso(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%S}Z"
