"""What a workload asks of a fleet, found by listening to it without serving it.

Problem.  A plan is made for a rate and for lengths, and a trace or a generator has neither: it has arrivals.
Idea.  Take requests as they come, answered after a time that is given.  The rate is that of the busiest minutes, since
whoever is there then is to be served too; the lengths are those of all requests but the first quarter, whose caches are
cold.  What is cached is what one cache that forgets nothing would have had; routers get less of it, so a share of those
requests counts as not cached at all, which is what a miss is.
Invariant.  The same workload gives the same load.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from inferplane_engine.identity import KeySpace, hash_blocks, seed
from inferplane_planner.core.demand import Demand
from inferplane_planner.workload import Piece, Request, Workload
from inferplane_planner.workload.shapes import UNHEARD, named
from inferplane_simulator.errors import ScenarioError
from inferplane_simulator.ideal import IdealCache

_SAMPLE: Final = 512
_FEWEST: Final = 8
_MOST_BURST: Final = 8.0


@dataclass(frozen=True, slots=True)
class Heard:
    """One request; lengths in tokens."""

    at_s: float
    prompt: int
    cached: int
    output: int


@dataclass(frozen=True, slots=True, eq=False)
class Load:
    """`demand` at the busiest rate; `burst` is the squared coefficient of variation of the gaps between arrivals."""

    demand: Demand
    burst: float
    requests: int
    seconds: float
    mean_per_s: float
    warm_s: float
    """When the first quarter had come."""
    hit_share: float
    """Of the requests that could hit, those that do."""

    @property
    def cached_share(self) -> float:
        return float(self.demand.cached.sum() / self.demand.prompt.sum())


def listen(workload: Workload, *, block_tokens: int, answer_s: float) -> list[Heard]:
    """Take requests until the workload ends, each answered after `answer_s`."""
    heard, cache, root = list[Heard](), IdealCache(), seed(KeySpace("load", "1", block_tokens))
    waiting = deque[tuple[float, Request]]()
    while (due := workload.peek()) is not None or waiting:
        if due is None or (waiting and waiting[0][0] <= due):
            answered_s, request = waiting.popleft()
            workload.finished(request, answered_s)
            continue
        request = workload.take()
        waiting.append((due + answer_s, request))
        heard.append(_heard(request, due, cache, block_tokens, root))
    return heard


def _heard(request: Request, at_s: float, cache: IdealCache, block_tokens: int, root: int) -> Heard:
    answer = Piece(request.answer or named(UNHEARD, request.number), request.output_tokens)
    hashes: list[int] = hash_blocks(request.prompt.followed_by(answer).token_ids(), block_tokens, root).tolist()
    prompt = request.prompt.tokens
    return Heard(at_s, prompt, cache.hit(hashes, (prompt - 1) // block_tokens) * block_tokens, request.output_tokens)


def load_of(heard: Sequence[Heard], *, hit_share: float, busiest_s: float = 300.0) -> Load:
    """Return what was asked; `hit_share` of the requests that could hit do.  Raises ScenarioError."""
    if len(heard) < _FEWEST:
        raise ScenarioError("load", f"{len(heard)} requests say nothing of a rate", f"give {_FEWEST} or more")
    times = np.array([each.at_s for each in heard])
    seconds = float(times[-1] - times[0])
    if seconds <= 0:
        raise ScenarioError("load", "all requests come at once", "give a trace that takes time")
    mean = (len(heard) - 1) / seconds
    rate = _busiest(times, min(busiest_s, seconds)) if seconds > busiest_s else mean
    warm = len(heard) // 4
    return Load(
        demand=_demand(heard[warm:], rate, hit_share),
        burst=_burst(times),
        requests=len(heard),
        seconds=seconds,
        mean_per_s=mean,
        warm_s=heard[warm].at_s,
        hit_share=hit_share,
    )


def _busiest(times: "np.ndarray[tuple[int], np.dtype[np.float64]]", width_s: float) -> float:
    """Return the highest rate over any span of that length."""
    ends = np.searchsorted(times, times + width_s, side="left")
    return float((ends - np.arange(times.size)).max()) / width_s


def _burst(times: "np.ndarray[tuple[int], np.dtype[np.float64]]") -> float:
    gaps = np.diff(times)
    return min(_MOST_BURST, max(1.0, float(gaps.var() / gaps.mean() ** 2)))


def _demand(heard: Sequence[Heard], rate: float, hit_share: float) -> Demand:
    chosen = [heard[int(place)] for place in np.linspace(0, len(heard) - 1, min(_SAMPLE, len(heard)))]
    prompt = np.array([each.prompt for each in chosen], np.float64)
    cached = np.array(_hits([each.cached for each in chosen], hit_share), np.float64)
    output = np.array([max(1, each.output) for each in chosen], np.float64)
    return Demand(rate, uncached=prompt - cached, cached=cached, output=output)


def _hits(cached: Sequence[int], share: float) -> list[int]:
    """Let every so many of those that could hit miss, evenly."""
    able, kept = 0, list[int]()
    for tokens in cached:
        able += tokens > 0
        hits = int(able * share) > int((able - 1) * share)
        kept.append(tokens if hits else 0)
    return kept
