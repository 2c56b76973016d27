"""What agents say of a request: its place in a worker's load, and the report at its end."""

import math

from inferplane_api.proto import worker_pb2
from inferplane_engine.sim.events import RequestStats
from inferplane_simulator.journey import Journey

_UNKNOWN = math.nan


def entry(journey: Journey, phase: worker_pb2.LoadPhase, *, uncached: int = 0, output: int = 0) -> worker_pb2.LoadEntry:
    return worker_pb2.LoadEntry(
        request_id=journey.name,
        router_epoch=journey.router + 1,
        phase=phase,
        prompt_tokens=journey.prompt_tokens,
        uncached_tokens=uncached,
        output_tokens=output,
    )


def prefill_report(journey: Journey, stats: RequestStats) -> worker_pb2.RequestReport:
    """Report the prefill half of a request that was handed over."""
    return worker_pb2.RequestReport(
        request_id=journey.name,
        router_epoch=journey.router + 1,
        outcome=worker_pb2.OUTCOME_OK,
        prompt_tokens=stats.prompt_tokens,
        output_tokens=1,
        cached_tokens=stats.local_cached,
        cached_tokens_known=True,
        queue_s=_UNKNOWN,
        prefill_s=stats.finished_at - stats.submitted_at,
        transfer_s=_UNKNOWN,
        tpot_s=_UNKNOWN,
        prefill_worker=journey.prefill,
        side=worker_pb2.ROLE_PREFILL,
    )


def report(journey: Journey, stats: RequestStats) -> worker_pb2.RequestReport:
    """Report a whole answer, by the decode worker."""
    handed = bool(journey.prefill)
    later = stats.output_tokens - 1
    return worker_pb2.RequestReport(
        request_id=journey.name,
        router_epoch=journey.router + 1,
        outcome=worker_pb2.OUTCOME_OK,
        prompt_tokens=stats.prompt_tokens,
        output_tokens=stats.output_tokens,
        cached_tokens=journey.cached_tokens,
        cached_tokens_known=True,
        decode_cached_tokens=stats.local_cached if handed else 0,
        decode_cached_tokens_known=handed,
        transferred_tokens=journey.transferred_tokens,
        queue_s=_UNKNOWN,
        prefill_s=_UNKNOWN if handed else stats.first_token_at - stats.submitted_at,
        transfer_s=stats.first_token_at - journey.prefilled_s if handed else _UNKNOWN,
        tpot_s=(stats.finished_at - stats.first_token_at) / later if later > 0 else _UNKNOWN,
        prefill_worker=journey.prefill,
        side=worker_pb2.ROLE_DECODE,
        streamed=True,
    )
