"""Wait for something to become true, and say what it was instead when it does not."""

import time
from collections.abc import Callable
from typing import Final, TypeVar

T = TypeVar("T")
_SHORTEST_S: Final = 0.1
_LONGEST_S: Final = 0.5
_SHARE: Final = 0.05
"""Of the time waited so far is the pause before the next look: each costs the API server what Pods need to start."""


class NeverHappenedError(AssertionError):
    """What was waited for did not come."""


def until(look: Callable[[], T], limit_s: float = 60, *, what: str = "") -> T:
    """Return what `look` gives as soon as it is true; the exception quotes what it gave last."""
    began = time.monotonic()
    while True:
        if seen := look():
            return seen
        waited = time.monotonic() - began
        if waited > limit_s:
            raise NeverHappenedError(f"{what or look.__name__}: not after {limit_s:g} s; last seen: {seen!r}")
        time.sleep(min(_LONGEST_S, max(_SHORTEST_S, _SHARE * waited)))
