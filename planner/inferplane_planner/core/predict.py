"""TTFT and TPOT percentiles of a candidate: so many prefill, decode or aggregated workers for a demand.

TTFT is wait, prefill, transfer and the first step, over the sample; the wait is that of one queue in front of all
prefill workers, which a router that knows their load comes close to.  TPOT is a crowded batch's step, and on aggregated
workers what prompts of others add to it.
Stated error: against a simulation of the same queue, within a fifth at up to 85 % of capacity (tests hold it to that).
"""

import math
from dataclasses import dataclass

from inferplane_planner.core.decoding import crowded_step_s, settle
from inferplane_planner.core.demand import Demand, Floats
from inferplane_planner.core.queueing import Wait, wait
from inferplane_planner.core.stalls import stalled_tpot_s
from inferplane_planner.core.times import EngineTimes
from inferplane_planner.core.totals import Total


@dataclass(frozen=True, slots=True)
class Candidate:
    """Workers by kind; aggregated ones (decode workers lent to prefill as well) do both."""

    prefill: int
    decode: int

    @property
    def disaggregated(self) -> bool:
        return self.prefill > 0

    def __str__(self) -> str:
        return f"{self.prefill}P:{self.decode}D" if self.prefill else f"{self.decode}A"


@dataclass(frozen=True, slots=True)
class Prediction:
    """Times in seconds at the asked percentile; infinite where the demand exceeds the capacity."""

    ttft_s: float
    tpot_s: float
    ttft_met: float
    """Share of requests within the TTFT limit."""
    prefill_use: float
    """Share of the prefilling workers' time that is used; above 1 where it is not enough."""
    decode_use: float
    """Sequences on a decoding worker, as a share of those that fit."""

    @property
    def endless(self) -> bool:
        return math.isinf(self.ttft_s) or math.isinf(self.tpot_s)


@dataclass(frozen=True, slots=True)
class Pair:
    """The engines of both pools; in an aggregated service `decode` alone counts."""

    prefill: EngineTimes
    decode: EngineTimes


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of every candidate: `percentile` is a share below 1, `burst` the arrivals' squared variation."""

    demand: Demand
    percentile: float
    ttft_limit_s: float
    burst: float = 1.0


def predict(question: Question, candidate: Candidate, engines: Pair) -> Prediction:
    """Predict a candidate."""
    if candidate.decode <= 0:
        return Prediction(math.inf, math.inf, 0.0, math.inf, math.inf)
    if candidate.disaggregated:
        return _apart(question, candidate, engines)
    return _together(question, candidate, engines.decode)


def _apart(question: Question, candidate: Candidate, engines: Pair) -> Prediction:
    demand, percentile, limit_s = question.demand, question.percentile, question.ttft_limit_s
    service = engines.prefill.prefill_s(demand.uncached, demand.cached)
    queue = _queue(demand.rate_per_s, candidate.prefill, service, question.burst)
    batch = settle(engines.decode, demand, per_worker=demand.answers_per_s / candidate.decode)
    tpot_s = crowded_step_s(engines.decode, demand, batch, share=percentile, prefill_share=0.0)
    first_s = 0.0 if math.isinf(tpot_s) else batch.step_s
    total = Total(queue, service + engines.prefill.transfer_s(demand.transferred) + first_s)
    return Prediction(
        ttft_s=total.percentile(percentile) if not batch.full else math.inf,
        tpot_s=tpot_s,
        ttft_met=total.within(limit_s) if not batch.full else 0.0,
        prefill_use=demand.rate_per_s * float(service.mean()) / candidate.prefill,
        decode_use=batch.sequences / engines.decode.most_sequences(float((demand.prompt + demand.output / 2).mean())),
    )


def _together(question: Question, candidate: Candidate, engine: EngineTimes) -> Prediction:
    demand, percentile, limit_s = question.demand, question.percentile, question.ttft_limit_s
    alone = engine.prefill_s(demand.uncached, demand.cached)
    share = demand.rate_per_s * float(alone.mean()) / candidate.decode
    batch = settle(engine, demand, per_worker=demand.answers_per_s / candidate.decode, prefill_share=min(1.0, share))
    if batch.full or share >= 1.0:
        return Prediction(math.inf, math.inf, 0.0, share, 1.0)
    # Each step of a prefill carries the decoding batch along.
    service = alone + engine.chunks(demand.uncached) * batch.step_s * (1.0 - share)
    queue = _queue(demand.rate_per_s, candidate.decode, service, question.burst)
    if queue.endless:
        return Prediction(math.inf, math.inf, 0.0, share, 1.0)
    tpot_s = stalled_tpot_s(
        demand,
        alone,
        step_s=crowded_step_s(engine, demand, batch, share=percentile, prefill_share=0.0),
        wait_s=queue.mean_s,
        workers=candidate.decode,
        burst=question.burst,
        percentile=percentile,
    )
    total = Total(queue, service)
    return Prediction(
        ttft_s=total.percentile(percentile),
        tpot_s=tpot_s,
        ttft_met=total.within(limit_s),
        prefill_use=share,
        decode_use=batch.sequences / engine.most_sequences(float((demand.prompt + demand.output / 2).mean())),
    )


def _queue(rate_per_s: float, servers: int, service: Floats, burst: float) -> Wait:
    mean = float(service.mean())
    return wait(
        servers=servers, rate_per_s=rate_per_s, mean_s=mean, variation=float(service.var()) / mean**2, burst=burst
    )
