"""What `top` shows, from the document that a router's console serves.  Pure.

Invariant: numbers are the console's own, so that both show the same.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from inferplane.table import Table
from inferplane.verdict import verdict

Document = Mapping[str, Any]
_STEPS = "▁▂▃▄▅▆▇█"
_WIDTH = 40
"""Samples of a trend: the last ones."""


@dataclass(frozen=True, slots=True)
class ServicePage:
    """One service: lines about it, then its workers."""

    lines: tuple[str, ...]
    workers: Table


def pages(state: Document) -> list[ServicePage]:
    """Make a page of each service."""
    return [ServicePage(tuple(_lines(it, state)), _workers(it)) for it in state["services"]]


def footer(state: Document) -> str:
    refused = sum(state["refused"].values())
    index = state["index"]
    text = f"{refused} refused since the start, {index['blocks']} blocks known in {_size(index['bytes'])}"
    return f"{text}; not ready: {state['unready']}" if state["unready"] else text


def _lines(it: Document, state: Document) -> Iterator[str]:
    limits = it["limits"]
    yield (
        f"{it['namespace']}/{it['name']}   {', '.join(it['servedNames'])}   "
        f"{it['inFlight']} running, {it['queued']} waiting   workers {_sides(it['workers'])}"
    )
    yield verdict(it)
    yield (
        f"p{limits['percentile']:g} over {state['windowSeconds'] / 60:g} min   "
        f"TTFT {_ms(it['ttft'])} of {_ms(limits['ttft'])}, {_percent(it['ttftMet'])} in time   "
        f"TPOT {_ms(it['tpot'])} of {_ms(limits['tpot'])}, {_percent(it['tpotMet'])} in time   "
        f"budget burns {_burn(it)}   hits {_hits(it, state['decisions'])}"
    )
    if plan := it.get("plan"):  # routers before this one were told of none
        yield f"planned {_planned(plan)}: {plan['reason']}"
    history: Sequence[Document] = it["history"]
    if history:
        yield f"in time {trend([moment['ttftMet'] for moment in history])}   waiting {_peak(history)}"


def _planned(plan: Document) -> str:
    lent = f" ({plan['lent']} lent)" if plan["lent"] else ""
    return f"{plan['prefill']}P:{plan['decode']}D{lent}{'' if plan['acting'] else ', advice'}"


def _workers(it: Document) -> Table:
    rows = [
        [
            worker["id"],
            worker["role"],
            worker["health"],
            str(worker["inFlight"]),
            str(worker["uncachedTokens"]),
            str(worker["blocks"]),
            worker["kvMode"],
            _percent(worker["exact"]),
            worker["detail"] or worker["mismatchDetail"],
        ]
        for worker in sorted(it["workers"], key=lambda worker: (worker["role"] != "prefill", worker["id"]))
    ]
    heads = ("worker", "role", "health", "running", "tokens ahead", "blocks", "cache known", "exact", "detail")
    return Table(heads, rows, frozenset({3, 4, 5, 7}))


def trend(shares: Sequence[float | None]) -> str:
    """Draw shares from 0 to 1, the newest last; a moment without a share is a space."""
    steps = [" " if it is None else _STEPS[min(len(_STEPS) - 1, int(it * len(_STEPS)))] for it in shares[-_WIDTH:]]
    return "".join(steps)


def _peak(history: Sequence[Document]) -> str:
    waiting = [moment["queued"] for moment in history[-_WIDTH:]]
    most = max(waiting)
    return f"{trend([it / most for it in waiting])} at most {most}" if most else "nobody"


def _burn(it: Document) -> str:
    """Say how many times too fast the error budget goes, of the objective that fares worse; 1x uses it up exactly."""
    told = [share for share in (it["ttftMet"], it["tpotMet"]) if share is not None]
    budget = 1 - it["limits"]["percentile"] / 100
    return f"{(1 - min(told)) / budget:.1f}x" if told and budget > 0 else "-"


def _sides(workers: Sequence[Document]) -> str:
    sides = ("prefill", "decode")
    serving = {
        side: sum(it["role"] == side and it["health"] in {"ready", "suspect"} for it in workers) for side in sides
    }
    return f"{serving['prefill']}P:{serving['decode']}D" if serving["prefill"] else f"{serving['decode']}D"


def _hits(it: Document, decisions: Sequence[Document]) -> str:
    """Return the share of the last prompts' tokens that were expected in caches."""
    place = it["namespace"], it["name"]
    routed = [each for each in decisions if (each["namespace"], each["service"]) == place and each["decode"]]
    asked = sum(each["promptTokens"] for each in routed)
    return _percent(sum(each["hitTokens"] for each in routed) / asked if asked else None)


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}" if share < 1 else "100%"


def _ms(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1000:.3g} ms"


def _size(octets: int) -> str:
    return f"{octets / 2**20:.1f} MiB"
