"""When a worker is avoided because of how its requests ended, and for how long.

Problem: a worker can say that it is well and still lose, refuse or starve what it gets.  Idea: a breaker a worker, as
in an electric circuit.  A request that did not get through opens it at once; so does a share of errors among its last
answers, or times far above those of its peers.  It closes by itself after a while that doubles with every trip, and
what comes back begins slowly (`room`).  Failures that arrive while it is open are those of requests sent before.
Trade-off: outcomes are judged one by one, without knowing whether the request or the worker was at fault; how many may
be out at once is therefore bounded (`ejection`).
Invariant: a worker is never avoided for longer than a minute at a time.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median
from typing import Final

from inferplane_api.proto import worker_pb2

_FIRST_S: Final = 5.0
_MOST_S: Final = 60.0
_FORGIVEN_S: Final = 120.0
"""Time without a trip after which the next one counts as the first."""
_ENOUGH: Final = 10
"""Answers from which a share or a mean is believed."""
_GAIN: Final = 0.1
_ERRORS: Final = 0.5
"""Share of errors that opens the breaker."""
_SLOWER: Final = 4.0
"""Times as slow, relative to predictions, as the others are."""
_RATIO_MOST: Final = 100.0
_SHORT_S: Final = 0.05
"""Added to both times: a few milliseconds more than predicted are no illness."""
_SERVER_ERROR: Final = 500


@dataclass(slots=True)
class Breaker:
    """One worker's; times in seconds."""

    slowness: float = 1.0
    """Observed by predicted time, on average."""
    _timed: int = 0
    _errors: float = 0.0
    _ended: int = 0
    _trips: int = 0
    _until: float = float("-inf")
    _firm: bool = False
    """Its own word that it is ready does not close it."""

    def trip(self, now: float, *, firm: bool = False) -> float:
        """Open; return until when."""
        if now < self._until:
            return self._until
        self._trips = 1 if now - self._until > _FORGIVEN_S else self._trips + 1
        self._firm = firm or self._trips > 1
        self._until = now + min(_MOST_S, _FIRST_S * 2.0 ** (self._trips - 1))
        self._errors, self._ended, self.slowness, self._timed = 0.0, 0, 1.0, 0
        return self._until

    def holds(self, now: float) -> bool:
        """Say whether the worker's own word does not count yet."""
        return self._firm and now < self._until

    def ended(self, report: worker_pb2.RequestReport) -> bool:
        """Follow the end of one request; True: too many end in errors.  What its client did says nothing."""
        bad = report.outcome == worker_pb2.OUTCOME_ENGINE_LOST or report.status >= _SERVER_ERROR
        if not bad and report.outcome != worker_pb2.OUTCOME_OK:
            return False
        self._ended += 1
        self._errors += max(_GAIN, 1 / self._ended) * (bad - self._errors)
        return self._ended >= _ENOUGH and self._errors > _ERRORS

    def timed(self, observed_s: float, predicted_s: float) -> bool:
        """Follow one request's time; True: slow enough to be compared with others (`slower_than`)."""
        ratio = min(_RATIO_MOST, (observed_s + _SHORT_S) / (predicted_s + _SHORT_S))
        self._timed += 1
        self.slowness += max(_GAIN, 1 / (self._timed + 1)) * (ratio - self.slowness)
        return self._timed >= _ENOUGH and self.slowness > _SLOWER

    def slower_than(self, others: Iterable[float]) -> bool:
        """Compare with the peers' slowness: their median, since one of them may be ill too."""
        peers = list(others)
        return bool(peers) and self.slowness > _SLOWER * max(1.0, median(peers))
