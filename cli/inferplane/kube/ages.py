"""Kubernetes' timestamps, as ages and durations a person reads.  Pure."""

from datetime import datetime
from typing import Final

_UNITS: Final = (("d", 86_400), ("h", 3_600), ("m", 60))
_FINE: Final = 10
"""Below so many of a unit the next smaller one is shown, too."""


def seconds(stamp: str | None) -> float | None:
    """Return the time of an RFC 3339 timestamp, in seconds since 1970; None where there is none."""
    if not stamp:
        return None
    try:
        return datetime.fromisoformat(stamp).timestamp()
    except ValueError:
        return None


def age(stamp: str | None, now: float) -> str:
    """Say how long ago it was; empty where nobody knows."""
    then = seconds(stamp)
    return "" if then is None else duration(now - then)


def duration(length_s: float) -> str:
    """Write a duration as `kubectl` does: two units while that matters, then one."""
    whole = max(0, int(length_s))
    for place, (unit, size) in enumerate(_UNITS):
        if whole < size:
            continue
        count, rest = divmod(whole, size)
        smaller, smaller_size = ("s", 1) if place + 1 == len(_UNITS) else _UNITS[place + 1]
        fine = f"{rest // smaller_size}{smaller}" if count < _FINE and rest >= smaller_size else ""
        return f"{count}{unit}{fine}"
    return f"{whole}s"
