"""How a service stands, in words: what `top` says first, and what the console says above everything.  Pure.

Invariant: moments are UTC, as those of logs and of `inferplane incident`.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from inferplane.moments import clock

Document = Mapping[str, Any]
_HALVES: Final = ("ttft", "tpot")
_SERVES: Final = frozenset({"ready", "suspect"})


def verdict(it: Document) -> str:
    """Say whether the objective holds, and when it did not."""
    missed: Mapping[str, Document | None] = (
        it.get("missed") or dict[str, Document]()
    )  # routers before this one do not tell
    told = {half: each for half in _HALVES if (each := missed.get(half))}
    lasts = any(each["lasts"] for each in told.values())
    return " ".join([_standing(it, lasts=lasts), *(_sentence(half, each) for half, each in told.items()), *_ill(it)])


def _standing(it: Document, *, lasts: bool) -> str:
    if not any(worker["role"] == "decode" and worker["health"] in _SERVES for worker in it["workers"]):
        return "No decode worker takes requests."
    if lasts:
        return "The objective is missed."
    return "No stream in five minutes." if it["ttftMet"] is None else "The objective holds."


def _sentence(half: str, each: Document) -> str:
    began, ended, met = clock(each["began"]), clock(each["ended"]), f"{each['met']:.1%} in time"
    if each["lasts"]:
        return f"{half.upper()} since {began} UTC: {met}."
    return f"{half.upper()} was missed from {began} to {ended} UTC: {met}."


def _ill(it: Document) -> Iterator[str]:
    ill = [f"{worker['id']} is {worker['health']}" for worker in it["workers"] if worker["health"] != "ready"]
    if ill:
        yield f"{', '.join(ill[:4])}."
