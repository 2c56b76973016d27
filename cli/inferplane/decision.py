"""A decision record as text: the request, the candidates with their terms, prediction against observation.  Pure."""

import math
from collections.abc import Sequence

from inferplane_api.proto import router_pb2, worker_pb2


def summary_lines(record: router_pb2.DecisionRecord) -> list[str]:
    outcome = router_pb2.PickOutcome.Name(record.outcome).removeprefix("PICK_OUTCOME_").lower()
    lines = [
        f"request {record.request_id}: {outcome}{f' ({record.reason})' if record.reason else ''}",
        f"service {record.service}   model {record.model}   policy {record.policy}   mode {record.mode}",
        f"prompt {record.prompt_tokens} tokens in blocks of {record.block_size}   queued {_ms(record.queued_s)}",
    ]
    return [*lines, *_comparison(record)]


def _comparison(record: router_pb2.DecisionRecord) -> list[str]:
    if not record.observed:
        predicted = f"ttft {_ms(record.predicted_ttft_s)}, tpot {_ms(record.predicted_tpot_s)}"
        return [f"predicted: {predicted}; nothing observed yet"]
    lines: list[str] = []
    for report in record.observed:
        prefill = report.side == worker_pb2.ROLE_PREFILL
        outcome = worker_pb2.Outcome.Name(report.outcome).removeprefix("OUTCOME_").lower()
        lines.append(f"{'prefill' if prefill else 'decode'} side: {outcome}, status {report.status}")
        lines += _compared(record, report, prefill=prefill, handed_over=len(record.observed) > 1)
    return lines


def _compared(
    record: router_pb2.DecisionRecord, report: worker_pb2.RequestReport, *, prefill: bool, handed_over: bool
) -> list[str]:
    """Say prediction and observation of what this side knows."""
    lines: list[str] = []
    if prefill or not handed_over:
        predicted = record.predicted_prefill_cached_tokens if prefill else _local_prediction(record)
        observed = str(report.cached_tokens) if report.cached_tokens_known else "unknown"
        lines.append(f"  cached tokens: predicted {predicted}, observed {observed}")
    else:
        observed = str(report.decode_cached_tokens) if report.decode_cached_tokens_known else "unknown"
        lines.append(f"  cached tokens: predicted {record.predicted_decode_cached_tokens}, observed {observed}")
    if not prefill:
        lines.append(f"  ttft: predicted {_ms(record.predicted_ttft_s)}, observed {_ms(report.ttft_s)}")
        lines.append(f"  tpot: predicted {_ms(record.predicted_tpot_s)}, observed {_ms(report.tpot_s)}")
    return lines


def _local_prediction(record: router_pb2.DecisionRecord) -> int:
    """Return the prediction for a request that its decode worker prefilled itself."""
    chosen = [candidate for candidate in record.candidates if candidate.chosen]
    if chosen and not chosen[0].prefill_worker:
        return chosen[0].decode_hit_tokens or chosen[0].prefill_hit_tokens
    return record.predicted_prefill_cached_tokens


def candidate_table(record: router_pb2.DecisionRecord) -> tuple[list[str], list[list[str]]]:
    """Return heads and rows: cheapest first, the chosen one marked, one column for each term of the cost."""
    terms = sorted({name for candidate in record.candidates for name in candidate.terms_ms})
    heads = ["", "decode", "prefill", "hits p", "hits d", *(f"{term} ms" for term in terms), "cost ms", "excluded"]
    ordered = sorted(record.candidates, key=lambda candidate: (bool(candidate.excluded_because), candidate.cost_ms))
    return heads, [_row(candidate, terms) for candidate in ordered]


def _row(candidate: router_pb2.Candidate, terms: Sequence[str]) -> list[str]:
    excluded = bool(candidate.excluded_because)
    return [
        "*" if candidate.chosen else "",
        _target(candidate.decode_worker, candidate.decode_rank),
        _target(candidate.prefill_worker, candidate.prefill_rank),
        str(candidate.prefill_hit_tokens),
        str(candidate.decode_hit_tokens),
        *(f"{candidate.terms_ms[term]:.2f}" if term in candidate.terms_ms else "" for term in terms),
        "" if excluded else f"{candidate.cost_ms:.2f}",
        candidate.excluded_because,
    ]


def _target(worker: str, rank: int) -> str:
    return f"{worker}/{rank}" if rank else worker


def _ms(seconds: float) -> str:
    return "unknown" if math.isnan(seconds) else f"{seconds * 1000:.1f} ms"
