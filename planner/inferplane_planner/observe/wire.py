"""The routers' records as events."""

import math
from typing import Final

from inferplane_api.proto import router_pb2 as pb
from inferplane_api.proto.worker_pb2 import OUTCOME_OK, ROLE_DECODE
from inferplane_planner.observe.events import Finished

_APPROXIMATE: Final = "approximate"
_UNKNOWN: Final = "unknown"
"""An older router says that it does not believe a worker, and not why."""


def finished(record: pb.DecisionRecord) -> Finished | None:
    """Return what a record says of an answered request; None where it was not answered, or nothing was observed."""
    reports = [report for report in record.observed if report.side == ROLE_DECODE and report.outcome == OUTCOME_OK]
    if not reports or not record.request_id:
        return None
    report = reports[-1]
    return Finished(
        request_id=record.request_id,
        prompt=report.prompt_tokens or record.prompt_tokens,
        cached=report.cached_tokens if report.cached_tokens_known else 0,
        output=max(1, report.output_tokens),
        ttft_s=max(0.0, record.queued_s) + report.ttft_s,
        tpot_s=report.tpot_s if report.output_tokens > 1 else math.nan,
        decode_s=report.decode_s,
        prefill_s=report.prefill_s,
        transfer_s=report.transfer_s,
        transferred=report.transferred_tokens,
        held=report.decode_cached_tokens if report.decode_cached_tokens_known else 0,
        apart=bool(report.prefill_worker),
        doubt=(record.mismatch or _UNKNOWN) if record.mode == _APPROXIMATE else "",
    )
