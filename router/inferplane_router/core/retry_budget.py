"""How many requests may be placed once more because a worker did not serve them.

Problem: when many workers fail, each request tries several of them, and the rest drown in tries.  Idea: a bucket.
Every new request puts a fifth of a retry in, every retry takes one out, and it holds as many as there are requests in
force, so that what a dying worker had may go elsewhere at once.  Trade-off: in a small, busy fleet whose workers die
one after the other some requests get a 503 that says when to come back.
Invariant: over any time, retries are at most a fifth of the requests, and one full bucket.
"""

from dataclasses import dataclass
from typing import Final

_SHARE: Final = 0.2
_LEAST: Final = 64.0


@dataclass(slots=True)
class RetryBudget:
    _left: float = _LEAST

    def earn(self, in_force: int) -> None:
        """Follow a new request beside so many in force."""
        self._left = min(self._left + _SHARE, max(_LEAST, float(in_force)))

    def spend(self) -> bool:
        """Take one retry; False: there is none left."""
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True
