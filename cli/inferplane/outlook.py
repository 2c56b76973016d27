"""What was predicted for a request against what happened to it, as a table.  Pure.

A hand-over has two sides, each with a report of its own; a side that was tried again has several, the last of which
counts.  Invariant: what nobody measured is never shown as a number.
"""

import math

from inferplane.decision import chosen_of, words
from inferplane.table import Table
from inferplane_api.proto import router_pb2, worker_pb2


def outlook_table(record: router_pb2.DecisionRecord) -> Table:
    """Set what was predicted against what happened."""
    decode = _last(record, prefill=False)
    rows = [*_cached_rows(record, decode), *_time_rows(record, decode)]
    if record.queued_s > 0:
        rows.append(["queued in the router, ms", "", _ms(record.queued_s)])
    return Table(("", "predicted", "observed"), rows, frozenset({1, 2}))


def _cached_rows(record: router_pb2.DecisionRecord, decode: worker_pb2.RequestReport | None) -> list[list[str]]:
    chosen = chosen_of(record)
    handed_over = decode.prefill_worker != "" if decode else bool(chosen and chosen.prefill_worker)
    if not handed_over:
        known = decode.cached_tokens if decode and decode.cached_tokens_known else None
        return [["cached tokens", str(_local_prediction(record)), _count(known, asked=decode is not None)]]
    prefill = _last(record, prefill=True) or decode
    at_prefill = prefill.cached_tokens if prefill and prefill.cached_tokens_known else None
    at_decode = decode.decode_cached_tokens if decode and decode.decode_cached_tokens_known else None
    moved = decode.transferred_tokens if decode and decode.decode_cached_tokens_known else None
    return [
        [
            "cached tokens, prefill",
            str(record.predicted_prefill_cached_tokens),
            _count(at_prefill, asked=prefill is not None),
        ],
        [
            "cached tokens, decode",
            str(record.predicted_decode_cached_tokens),
            _count(at_decode, asked=decode is not None),
        ],
        ["tokens handed over", str(_transfer_prediction(record)), _count(moved, asked=decode is not None)],
    ]


def _transfer_prediction(record: router_pb2.DecisionRecord) -> int:
    return max(0, record.prompt_tokens - record.predicted_decode_cached_tokens)


def _local_prediction(record: router_pb2.DecisionRecord) -> int:
    """Return the prediction for a request that its decode worker prefilled itself."""
    chosen = chosen_of(record)
    if chosen is not None and not chosen.prefill_worker:
        return chosen.decode_hit_tokens or chosen.prefill_hit_tokens
    return record.predicted_prefill_cached_tokens


def _count(tokens: int | None, *, asked: bool) -> str:
    if not asked:
        return ""
    return "unknown" if tokens is None else str(tokens)


def _time_rows(record: router_pb2.DecisionRecord, decode: worker_pb2.RequestReport | None) -> list[list[str]]:
    return [
        ["first token, ms", _ms(record.predicted_ttft_s), _seen(decode, decode.ttft_s if decode else math.nan)],
        ["each further token, ms", _ms(record.predicted_tpot_s), _seen(decode, decode.tpot_s if decode else math.nan)],
    ]


def _seen(report: worker_pb2.RequestReport | None, seconds: float) -> str:
    if report is None:
        return ""
    if math.isnan(seconds):
        return "unknown" if report.streamed else "not streamed"
    return _ms(seconds)


def outcome(record: router_pb2.DecisionRecord) -> str:
    """Tell how each side ended, in one sentence; a side that was tried again ended several times."""
    if not record.observed:
        return "It is still running, or nothing was reported."
    sides: list[str] = []
    for side, prefill in (("prefill", True), ("decode", False)):
        ends = [_end(report) for report in record.observed if (report.side == worker_pb2.ROLE_PREFILL) is prefill]
        if ends:
            sides.append(f"{side} {', then '.join(ends)}")
    return f"Outcome: {'; '.join(sides)}."


def _end(report: worker_pb2.RequestReport) -> str:
    if report.outcome == worker_pb2.OUTCOME_OK:
        return "ok" if report.side == worker_pb2.ROLE_PREFILL else f"ok, {_tokens(report.output_tokens)}"
    name = words(worker_pb2.Outcome.Name(report.outcome).removeprefix("OUTCOME_"))
    return f"{name} ({report.status})" if report.status else name


def _last(record: router_pb2.DecisionRecord, *, prefill: bool) -> worker_pb2.RequestReport | None:
    found = [report for report in record.observed if (report.side == worker_pb2.ROLE_PREFILL) is prefill]
    return found[-1] if found else None


def _tokens(count: int) -> str:
    return f"{count} token{'s' * (count != 1)}"


def _ms(seconds: float) -> str:
    return "unknown" if math.isnan(seconds) else f"{seconds * 1000:.1f}"
