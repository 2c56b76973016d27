"""When things happened to one request, and the report made of it.

A timeline is filled while a request runs and read once at its end.  Durations that were not observed are NaN, never 0:
a router that learns from them must be able to tell "fast" from "unknown".
"""

import math
from dataclasses import dataclass, field
from enum import IntEnum

from inferplane_workers.agent.routing_headers import Routing
from inferplane_workers.agent.usage import Usage

_UNKNOWN = math.nan


class Outcome(IntEnum):
    """Values of the wire's Outcome."""

    OK = 1
    CLIENT_GONE = 2
    ENGINE_ERROR = 3
    ENGINE_LOST = 4
    REFUSED = 5
    BAD_REQUEST = 6
    DEADLINE = 7


class Side(IntEnum):
    """Values of the wire's Role."""

    PREFILL = 1
    DECODE = 2


@dataclass(frozen=True, slots=True)
class Report:
    """One finished request, as this agent saw it; times in seconds."""

    routing: Routing
    outcome: Outcome
    status: int
    model: str
    side: Side
    streamed: bool
    prompt_tokens: int
    output_tokens: int
    cached_tokens: int | None
    decode_cached_tokens: int | None
    transferred_tokens: int
    queue_s: float
    prefill_s: float
    transfer_s: float
    decode_s: float
    ttft_s: float
    tpot_s: float
    duration_s: float
    prefill_worker: str
    failed_prefill_workers: tuple[str, ...]
    damaged_prefill_workers: tuple[str, ...]
    """Those of them that were not asked, since their blocks arrive damaged."""


@dataclass(slots=True)
class Timeline:
    """Moments of one request on the injected clock."""

    accepted: float
    prefill_sent: float = _UNKNOWN
    prefill_answered: float = _UNKNOWN
    engine_sent: float = _UNKNOWN
    first_token: float = _UNKNOWN
    last_token: float = _UNKNOWN
    begun: bool = False
    """A first token has come."""
    queue_s: float = _UNKNOWN
    """Unknown: vLLM tells it only with `--enable-per-request-metrics`, which makes an object of `metrics` in every
    whole answer and adds it to a stream's usage chunk.  Answers pass byte by byte here; with that flag every one would
    have to be rewritten to what it is without, for a number that `prefill_s` (sending to first token) contains."""
    prefill_worker: str = ""
    prefill_usage: Usage | None = None
    failed_prefill: list[str] = field(default_factory=list[str])
    damaged_prefill: list[str] = field(default_factory=list[str])

    def token(self, now: float) -> None:
        if not self.begun:
            self.begun = True
            self.first_token = now
        self.last_token = now

    def report(
        self,
        *,
        routing: Routing,
        outcome: Outcome,
        status: int,
        model: str,
        side: Side,
        streamed: bool,
        usage: Usage | None,
        now: float,
    ) -> Report:
        """Add up the moments."""
        remote = self.prefill_usage
        counted = usage or Usage()
        handed = bool(self.prefill_worker)
        prompt = counted.prompt or (remote.prompt if remote else 0) or routing.prompt_tokens
        cached = remote.cached if handed and remote is not None else counted.cached
        return Report(
            routing=routing,
            outcome=outcome,
            status=status,
            model=model,
            side=side,
            streamed=streamed,
            prompt_tokens=prompt,
            output_tokens=counted.output,
            cached_tokens=cached,
            decode_cached_tokens=None,
            transferred_tokens=0,
            queue_s=self.queue_s,
            prefill_s=self._prefill_s(handed=handed, timed=streamed or side is Side.PREFILL),
            transfer_s=self.first_token - self.prefill_answered if handed and streamed else _UNKNOWN,
            decode_s=self.last_token - self.first_token if streamed else _UNKNOWN,
            ttft_s=self.first_token - self.accepted if streamed else _UNKNOWN,
            tpot_s=self._tpot_s(counted.output, streamed=streamed),
            duration_s=now - self.accepted,
            prefill_worker=self.prefill_worker,
            failed_prefill_workers=tuple(self.failed_prefill),
            damaged_prefill_workers=tuple(self.damaged_prefill),
        )

    def _prefill_s(self, *, handed: bool, timed: bool) -> float:
        if handed:
            return self.prefill_answered - self.prefill_sent
        return self.first_token - self.engine_sent if timed else _UNKNOWN

    def _tpot_s(self, output_tokens: int, *, streamed: bool) -> float:
        if not streamed or output_tokens < 2:  # noqa: PLR2004 - one token has no gap
            return _UNKNOWN
        return (self.last_token - self.first_token) / (output_tokens - 1)
