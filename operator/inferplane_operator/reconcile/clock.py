"""Times as objects hold them: RFC 3339 in UTC, whole seconds."""

from datetime import datetime


def seconds_between(earlier: str, later: str) -> float:
    """Return the time from one to the other; 0 when one is not known or the clock went back."""
    start, end = _parsed(earlier), _parsed(later)
    return max(0.0, (end - start).total_seconds()) if start and end else 0.0


def _parsed(text: str) -> datetime | None:
    if not text:
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None
