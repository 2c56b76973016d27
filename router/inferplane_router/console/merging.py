"""The pictures of a router's processes as one, and what the page gets of it: shares and percentiles instead of counts.

All processes hear the same of workers and plans; requests, predictions and decisions are each process's own.  So the
first is taken from the process that was asked, and the second is added.
Invariant: with one process nothing changes, and counts do not depend on the order of the others.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from inferplane_router.console.history import percentile, share, tick
from inferplane_router.console.misses import last_missed
from inferplane_router.console.picture import Document
from inferplane_runtime.metrics import buckets

DECISIONS: Final = 40
PREFIXES: Final = 8
_OWN_COUNTS: Final = ("inFlight", "queued")
_MOMENT_COUNTS: Final = (*_OWN_COUNTS, "ttft_met", "ttft_missed", "tpot_met", "tpot_missed")


def together(own: Document, others: Sequence[Document]) -> Document:
    """Add what other processes have counted to one's own picture."""
    pictures = (own, *others)
    decisions = [it for each in pictures for it in each["decisions"]]
    return {
        **own,
        "services": [_service(it, [found for each in others for found in _same(it, each)]) for it in own["services"]],
        "refused": _added(each["refused"] for each in pictures),
        "decisions": sorted(decisions, key=lambda it: -float(it["at"]))[:DECISIONS],
    }


def shown(document: Document, *, answered: int = 1, processes: int = 1) -> Document:
    """Turn counts into what a person reads; `answered` of the router's processes are in the document."""
    return {
        **document,
        "processes": {"answered": answered, "expected": processes},
        "services": [_shown_service(it) for it in document["services"]],
    }


def _same(service: Document, other: Document) -> list[Document]:
    """Return the service as another process sees it, if it does."""
    place = service["namespace"], service["name"]
    return [it for it in other["services"] if (it["namespace"], it["name"]) == place]


def _service(own: Document, others: Sequence[Document]) -> Document:
    seen = (own, *others)
    return {
        **own,
        **{name: sum(it[name] for it in seen) for name in _OWN_COUNTS},
        "window": _window([it["window"] for it in seen]),
        "workers": [_worker(it, [each for other in others for each in other["workers"]]) for it in own["workers"]],
        "history": _history(own["history"], [it["history"] for it in others]),
        "prefixes": _prefixes(it["prefixes"] for it in seen),
    }


def _window(tallies: Sequence[Document]) -> Document:
    return {
        name: sum(it[name] for it in tallies) if isinstance(value, int) else _columns([it[name] for it in tallies])
        for name, value in tallies[0].items()
    }


def _columns(rows: Sequence[Sequence[int]]) -> list[int]:
    """Add buckets; a process that has counted nothing yet has none."""
    return [sum(column) for column in zip(*(row for row in rows if row), strict=True)]


def _worker(own: Document, others: Iterable[Document]) -> Document:
    same = [own, *(it for it in others if it["id"] == own["id"])]
    return {**own, **{name: sum(it[name] for it in same) for name in ("predictions", "exactPredictions")}}


def _history(own: Sequence[Document], others: Sequence[Sequence[Document]]) -> list[Document]:
    by_tick: dict[int, list[Document]] = {}
    for moment in (it for moments in others for it in moments):
        by_tick.setdefault(tick(moment["at"]), []).append(moment)
    return [_moment(it, by_tick.get(tick(it["at"]), ())) for it in own]


def _moment(own: Document, others: Sequence[Document]) -> Document:
    return {**own, **{name: own[name] + sum(it[name] for it in others) for name in _MOMENT_COUNTS}}


def _prefixes(lists: Iterable[Sequence[Document]]) -> list[Document]:
    """Add how often each was asked for; all processes read one index, so any of them knows who holds it."""
    found: dict[str, Document] = {}
    for it in (each for prefixes in lists for each in prefixes):
        before = found.get(it["name"])
        found[it["name"]] = it if before is None else {**before, "asked": before["asked"] + it["asked"]}
    return sorted(found.values(), key=lambda it: (-it["tokens"] * it["asked"], it["name"]))[:PREFIXES]


def _added(counts: Iterable[dict[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for each in counts:
        for name, count in each.items():
            total[name] = total.get(name, 0) + count
    return total


def _shown_service(it: Document) -> Document:
    window, percent = it["window"], it["limits"]["percentile"]
    rest = {name: value for name, value in it.items() if name != "window"}
    return {
        **rest,
        "ttft": percentile(tuple(window["ttft"]), buckets.TTFT_S, percent),
        "tpot": percentile(tuple(window["tpot"]), buckets.TPOT_S, percent),
        **_shares(window),
        "judged": window["ttft_met"] + window["ttft_missed"],
        "missed": last_missed(it["history"]),
        "workers": [_shown_worker(worker) for worker in it["workers"]],
        "history": [_shown_moment(moment) for moment in it["history"]],
        "prefixes": it["prefixes"][:PREFIXES],
    }


def _shown_worker(it: Document) -> Document:
    rest = {name: value for name, value in it.items() if name not in {"predictions", "exactPredictions"}}
    return {**rest, "exact": share(it["exactPredictions"], it["predictions"] - it["exactPredictions"])}


def _shown_moment(it: Document) -> Document:
    return {name: it[name] for name in ("at", "prefill", "decode", *_OWN_COUNTS)} | _shares(it)


def _shares(counted: dict[str, Any]) -> Document:
    return {
        "ttftMet": share(counted["ttft_met"], counted["ttft_missed"]),
        "tpotMet": share(counted["tpot_met"], counted["tpot_missed"]),
    }
