"""Which workers take far longer than was predicted, and than their peers do.  Pure.

Problem: under a flood every worker is late, and an ill one is late among others that are not.
Idea: how late a worker's answers are, relative to their predictions, against the median of its peers.
Trade-off: a worker without peers is held against its predictions alone.
Invariant: nobody is called slow for fewer than `_ENOUGH` answers.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from statistics import median
from typing import Final

from inferplane_api.proto.worker_pb2 import OUTCOME_OK, RequestReport
from inferplane_observability.incident.happening import Happening, Kind
from inferplane_router.chronicle.ended import Ended

_ENOUGH: Final = 3
_GAIN: Final = 0.3
_SLOW: Final = 3.0
_FAIR: Final = 1.5
_TTFT_SLACK_S: Final = 0.1
_TPOT_SLACK_S: Final = 0.01
"""Added to both times: a few milliseconds more than predicted are no illness."""


@dataclass(slots=True)
class _Pace:
    service: str
    times: float = 1.0
    """Observed by predicted time, on average."""
    answers: int = 0
    slow: bool = False


class Paces:
    """Follows the workers of one router."""

    def __init__(self) -> None:
        self._paces: dict[str, _Pace] = {}

    def take(self, requests: Iterable[Ended], at: float) -> Iterator[Happening]:
        """Follow what was observed of these requests; yield who is slow from now on, and who no more."""
        seen: dict[str, None] = {}
        for it in requests:
            for report in it.reports:
                if it.worker and report.streamed and report.outcome == OUTCOME_OK:
                    self._follow(it, report)
                    seen[it.worker] = None
        for worker in seen:
            yield from self._judge(worker, at)

    def _follow(self, request: Ended, report: RequestReport) -> None:
        pace = self._paces.setdefault(request.worker, _Pace(request.service))
        ttft = (report.ttft_s + _TTFT_SLACK_S) / (request.ttft_s + _TTFT_SLACK_S)
        tpot = (report.tpot_s + _TPOT_SLACK_S) / (request.tpot_s + _TPOT_SLACK_S)
        told = [it for it in (ttft, tpot) if it == it]  # noqa: PLR0124 - not a number: not observed
        pace.answers += 1
        pace.times += max(_GAIN, 1 / pace.answers) * (max(told, default=1.0) - pace.times)

    def _judge(self, worker: str, at: float) -> Iterator[Happening]:
        pace = self._paces[worker]
        peers = [it.times for name, it in self._paces.items() if name != worker and it.service == pace.service]
        usual = max(1.0, median(peers)) if peers else 1.0
        slow = pace.times > (_FAIR if pace.slow else _SLOW) * usual and pace.answers >= _ENOUGH
        if slow != pace.slow:
            pace.slow = slow
            detail = "far slower than predicted" if slow else "about as fast as predicted"
            numbers = {"times": round(pace.times, 1), "peers": float(len(peers))}
            yield Happening(at, Kind.SLOW, pace.service, worker, detail, bad=slow, numbers=numbers)
