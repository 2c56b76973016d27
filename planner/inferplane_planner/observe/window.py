"""Finished requests of the last while: their lengths, what they met, and what they tell of the engines.

A batch is not observed; by Little's law its mean is the time that sequences spent decoding, over the time and the
workers that there were.  Means do, since a step's time is linear in batch and KV.
Trade-off: where the load rises, the requests that have not ended yet are missing from it.
"""

import math
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from inferplane_planner.core.contract import Measured
from inferplane_planner.core.demand import Demand
from inferplane_planner.core.engine_model import Learned, Part
from inferplane_planner.core.solve import Objective
from inferplane_planner.observe.events import Finished
from inferplane_planner.observe.trust import Trust, trust_of

_KEPT: Final = 20_000
_SAMPLE: Final = 512
_RECENT: Final = 0.25
"""Share of the window whose requests are all looked at, however many: a burst's requests end together and are alike."""
_IDS_KEPT: Final = 65_536
_TIMED: Final = 64
"""Requests of one step whose times are learned from."""
_FEW: Final = 20


@dataclass(slots=True)
class Window:
    """`length_s` is the span that counts; `decode_length_s` the span over which a mean batch is taken."""

    length_s: float
    began_s: float
    decode_length_s: float = 60.0
    _finished: deque[tuple[float, Finished]] = field(
        default_factory=lambda: deque[tuple[float, Finished]](maxlen=_KEPT)
    )
    _news: deque[Finished] = field(default_factory=lambda: deque[Finished](maxlen=_TIMED))
    _ids: OrderedDict[str, None] = field(default_factory=OrderedDict[str, None])

    def finish(self, request: Finished, now: float) -> None:
        """Take a finished request; one that was told before, or makes no sense, is left out."""
        if request.request_id in self._ids or request.prompt < 0 or request.cached > max(request.prompt, 0):
            return
        self._ids[request.request_id] = None
        if len(self._ids) > _IDS_KEPT:
            self._ids.popitem(last=False)
        self._finished.append((now, request))
        self._news.append(request)

    def sample(self, now: float) -> Demand | None:
        """Return the newest requests, evenly chosen where there are many, as a sample; None when there is none."""
        newest = self._newest(now)
        if not newest:
            return None
        return Demand(
            rate_per_s=len(newest) / self.length_s,
            uncached=_array([it.uncached for it in newest]),
            cached=_array([it.cached for it in newest]),
            output=_array([it.output for it in newest]),
            held=_array([it.held for it in newest]),
        )

    def measured(self, now: float, objective: Objective) -> Measured | None:
        """Return what requests of the window met."""
        timed = [it for it in self._since(now - self.length_s) if math.isfinite(it.ttft_s)]
        if not timed:
            return None
        ttft, tpot = _array([it.ttft_s for it in timed]), np.nan_to_num(_array([it.tpot_s for it in timed]))
        within = (ttft <= objective.ttft_s) & (tpot <= objective.tpot_s)
        return Measured(
            requests=len(timed),
            ttft_s=float(np.quantile(ttft, objective.percentile)),
            tpot_s=float(np.quantile(tpot, objective.percentile)),
            attainment=float(within.mean()),
        )

    def trust(self, now: float) -> Trust:
        """Return how far the routers believed the workers of these requests."""
        return trust_of(it.doubt for it in self._since(now - self.length_s))

    def learned(self, now: float, *, decode_workers: int) -> tuple[Learned, ...]:
        """Return what the requests since the last call tell of the engines."""
        news, self._news = list(self._news), deque[Finished](maxlen=_TIMED)
        if not news:
            return ()
        return (*_prefills(news), *_transfers(news), *self._decoding(now, decode_workers))

    def _decoding(self, now: float, workers: int) -> list[Learned]:
        begin = now - self.decode_length_s
        decoded = [it for it in self._since(begin) if it.output > 1 and math.isfinite(it.decode_s)]
        if workers <= 0 or len(decoded) < _FEW or begin < self.began_s:
            return []
        spent = sum(it.decode_s for it in decoded)
        batch = spent / (self.decode_length_s * workers)
        # The share of steps that prefills of the same worker take is not decoding.
        prefilling = sum(it.prefill_s for it in decoded if not it.apart and math.isfinite(it.prefill_s))
        if prefilling > 0.25 * self.decode_length_s * workers:
            return []
        kv_each = sum((it.prompt + it.output / 2.0) * it.decode_s for it in decoded) / spent if spent > 0 else 0.0
        step_s = spent / sum(it.output - 1 for it in decoded)
        step_s *= 1.0 - prefilling / (self.decode_length_s * workers)
        return [Learned(Part.DECODE, step_s, max(1.0, batch) * kv_each, batch=max(1.0, batch))]

    def _newest(self, now: float) -> list[Finished]:
        recent = self._since(now - _RECENT * self.length_s)
        if len(recent) <= _SAMPLE:
            return self._since(now - self.length_s)[-_SAMPLE:]
        return [recent[int(place)] for place in np.linspace(0, len(recent) - 1, _SAMPLE)]

    def _since(self, begin: float) -> list[Finished]:
        while self._finished and self._finished[0][0] < begin - self.length_s:
            self._finished.popleft()
        return [request for at, request in self._finished if at >= begin]


def _prefills(news: Sequence[Finished]) -> list[Learned]:
    return [Learned(Part.PREFILL, it.prefill_s, it.uncached, it.cached) for it in news if math.isfinite(it.prefill_s)]


def _transfers(news: Sequence[Finished]) -> list[Learned]:
    """Leave out the first token's step, which is in the time and as long as those that follow."""
    return [
        Learned(Part.TRANSFER, it.transfer_s - it.tpot_s, it.transferred)
        for it in news
        if it.transferred > 0 and it.transfer_s > it.tpot_s
    ]


def _array(values: Sequence[float]) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    return np.array(values, dtype=np.float64)
