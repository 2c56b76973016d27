"""Moments as people write them: now, how long ago, a time of today, a whole date."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from inferplane.errors import InvalidError
from inferplane_runtime.settings import parse_duration

_TIME: Final = re.compile(r"\d{1,2}:\d{2}(:\d{2})?")


def read_moment(text: str, now: float) -> float:
    """Return seconds since 1970; times without a zone are UTC, as in logs.  Raises InvalidError."""
    given = text.strip()
    if given == "now":
        return now
    try:
        if given.endswith(" ago") or given.startswith("-"):
            return now - parse_duration(given.removeprefix("-").removesuffix(" ago"))
        if _TIME.fullmatch(given):
            return _of_today(given, now)
        found = datetime.fromisoformat(given)
    except ValueError:
        known = "now, '10m ago', 14:05, 14:05:30 or 2026-01-31T14:05:30Z"
        raise InvalidError(f"--at {text!r} is no moment; write {known}; without a zone it is UTC") from None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def _of_today(text: str, now: float) -> float:
    """Return the last time that a clock showed this."""
    parts = [int(part) for part in text.split(":")]
    today = datetime.fromtimestamp(now, UTC)
    found = today.replace(hour=parts[0], minute=parts[1], second=parts[2] if len(parts) > 2 else 0, microsecond=0)  # noqa: PLR2004 - seconds are there
    return (found if found.timestamp() <= now else found - timedelta(days=1)).timestamp()


def clock(at: float) -> str:
    """Return the time of a day, UTC."""
    return f"{datetime.fromtimestamp(at, UTC):%H:%M:%S}"
