"""Wait for something to become true, and say what it was instead when it does not."""

import time
from collections.abc import Callable
from typing import Final, TypeVar

T = TypeVar("T")
_POLL_S: Final = 0.1


class NeverHappenedError(AssertionError):
    """What was waited for did not come."""


def until(look: Callable[[], T], limit_s: float = 60, *, what: str = "") -> T:
    """Return what `look` gives as soon as it is true; the exception quotes what it gave last."""
    deadline = time.monotonic() + limit_s
    while True:
        if seen := look():
            return seen
        if time.monotonic() > deadline:
            raise NeverHappenedError(f"{what or look.__name__}: not after {limit_s:g} s; last seen: {seen!r}")
        time.sleep(_POLL_S)
