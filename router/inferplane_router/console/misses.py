"""When each half of an objective was last missed, and whether it still is: what a person wants to know first.  Pure.

Problem: a figure of five minutes is good long after things have gone wrong, and bad long after they are well again.
Idea: the last stretch of samples in which too much was late, by the rule that `inferplane incident` goes by.
Trade-off: what was missed counts as over when half a minute has passed without it, not at once.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from inferplane_observability.incident.breach import GAP_S, Breach, Load, stretches
from inferplane_router.console.history import SAMPLE_S

Moment = Mapping[str, Any]
HALVES: Final = ("ttft", "tpot")


def last_missed(history: Sequence[Moment]) -> dict[str, dict[str, Any] | None]:
    """Return the last stretch of each half; None: there was none in this history."""
    return {half: _last(half, history) for half in HALVES}


def _last(half: str, history: Sequence[Moment]) -> dict[str, Any] | None:
    steps = [Load(it["at"] - SAMPLE_S, it[f"{half}_met"], it[f"{half}_missed"]) for it in history]
    found = list(stretches("", steps))
    return _told(found[-1], history[-1]["at"]) if found else None


def _told(it: Breach, newest: float) -> dict[str, Any]:
    return {"began": it.began, "ended": it.ended, "met": 1 - it.share, "lasts": newest - it.ended < GAP_S}
