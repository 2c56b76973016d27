"""A decision record as text: where the request went and why.  Pure.

Problem: a record holds every candidate and every term of its cost; a person asks where it went, and why.  Idea: one
sentence for each question, the second by the term that made the difference to the runner-up; only then come the
candidates, without the terms that are zero for all of them, and each term explained.
Trade-off: what is left out is in `-o json`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from inferplane.table import Table
from inferplane_api.proto import router_pb2

_SHOWN = 10
"""Candidates that fit a glance."""
_EQUAL_MS, _EQUAL_SHARE = 1.0, 0.02
"""Costs this close are as good as equal to the router, too."""
_COST_POLICY = "kv-aware"


@dataclass(frozen=True, slots=True)
class _Term:
    head: str
    meaning: str


_TERMS: Mapping[str, _Term] = {
    "own_ttft": _Term("first token", "its own time to the first token, which counts lightly below the limit"),
    "ttft_overrun": _Term("late", "how far its first token is expected to miss the limit"),
    "prefill_delay_to_others": _Term("prompts behind", "how long its prefill holds up other prompts"),
    "stalled_decodes": _Term("stalled", "how long its prefill holds up answers that run there"),
    "decode": _Term("slower tokens", "its own tokens past the limit, and what it slows others down"),
}
"""In the order of the columns."""


def headline(record: router_pb2.DecisionRecord) -> str:
    if record.outcome != router_pb2.PICK_OUTCOME_ROUTED:
        outcome = words(router_pb2.PickOutcome.Name(record.outcome).removeprefix("PICK_OUTCOME_"))
        return f"{record.request_id} was not routed: {outcome}{f' ({record.reason})' if record.reason else ''}"
    chosen = chosen_of(record)
    if chosen is None:
        return f"{record.request_id} was routed"
    decode = target(chosen.decode_worker, chosen.decode_rank)
    if not chosen.prefill_worker:
        return f"{record.request_id} went to {decode} for prefill and decode"
    prefill = target(chosen.prefill_worker, chosen.prefill_rank)
    return f"{record.request_id} went to {prefill} for prefill, then to {decode} for decode"


def reason(record: router_pb2.DecisionRecord) -> str:
    """Say in one sentence why it went there; empty when it went nowhere."""
    chosen = chosen_of(record)
    if chosen is None:
        return ""
    others = [it for it in _by_cost(record) if not it.chosen]
    if not others:
        return "Why: there was no other choice."
    if record.policy != _COST_POLICY:
        return f"Why: the {record.policy} policy says so; it does not go by the costs below."
    near = [it for it in others if _as_good(chosen.cost_ms, it.cost_ms)]
    if near:
        more = f" and {len(near) - 1} more" if len(near) > 1 else ""
        return f"Why: nothing is cheaper; {_combination(near[0], chosen)}{more} would have been as good."
    runner_up = others[0]
    dearer_ms = runner_up.cost_ms - chosen.cost_ms
    if dearer_ms < 0:
        other = _combination(runner_up, chosen)
        return f"Why: the cheapest that could take it; {other} would have cost {-dearer_ms:.1f} ms less."
    return (
        f"Why: cheapest of {len(others) + 1}; {_combination(runner_up, chosen)} costs {dearer_ms:.1f} ms more, "
        f"{_difference(chosen, runner_up)}."
    )


def _as_good(cost_ms: float, other_ms: float) -> bool:
    return abs(other_ms - cost_ms) <= max(_EQUAL_MS, _EQUAL_SHARE * cost_ms)


def _difference(chosen: router_pb2.Candidate, other: router_pb2.Candidate) -> str:
    """Name what speaks most for the chosen one."""
    names = sorted({*chosen.terms_ms, *other.terms_ms})
    worst = max(names, key=lambda name: other.terms_ms.get(name, 0.0) - chosen.terms_ms.get(name, 0.0), default="")
    more_cached = chosen.prefill_hit_tokens - other.prefill_hit_tokens
    cached = f" ({more_cached} fewer tokens cached)" if more_cached > 0 else ""
    return f"mostly for {_head(worst)!r}{cached}" if worst else "in sum"


def _combination(candidate: router_pb2.Candidate, chosen: router_pb2.Candidate) -> str:
    """Name a candidate by the side in which it differs."""
    decode = target(candidate.decode_worker, candidate.decode_rank)
    prefill = target(candidate.prefill_worker, candidate.prefill_rank)
    if not candidate.prefill_worker:
        return decode
    if decode == target(chosen.decode_worker, chosen.decode_rank):
        return prefill
    if prefill == target(chosen.prefill_worker, chosen.prefill_rank):
        return decode
    return f"{prefill} with {decode}"


def candidate_table(record: router_pb2.DecisionRecord) -> Table:
    """Return the cheapest candidates, the chosen one marked, with a column for each term that is not zero for all."""
    candidates = _shown(record)
    terms = _telling(candidates)
    split = any(candidate.prefill_worker for candidate in candidates)
    workers = ("prefill", "cached", "decode", "cached") if split else ("worker", "cached")
    heads = ("", *workers, *(_head(term) for term in terms), "cost")
    digits = 1 if max((it.cost_ms for it in candidates), default=0.0) >= 10 else 2  # noqa: PLR2004  two digits suffice
    rows = [_row(candidate, terms, split=split, digits=digits) for candidate in candidates]
    cached = (2, 4) if split else (2,)
    return Table(heads, rows, frozenset({*cached, *range(1 + len(workers), len(heads))}))


def notes(record: router_pb2.DecisionRecord) -> list[str]:
    """Explain the columns, and say what the table leaves out."""
    lines = [f"{_TERMS[term].head}: {_TERMS[term].meaning}" for term in _telling(_shown(record)) if term in _TERMS]
    left = len(_by_cost(record)) - len(_shown(record))
    if left > 0:
        lines.append(f"{left} more candidates: -o json")
    taken = next((it for it in record.candidates if it.chosen), router_pb2.Candidate())
    out = [f"{_left_out(it, taken)} ({it.excluded_because})" for it in record.candidates if it.excluded_because]
    return [*lines, *([f"not considered: {', '.join(out)}"] if out else [])]


def _left_out(candidate: router_pb2.Candidate, taken: router_pb2.Candidate) -> str:
    """Name the side that sets a candidate apart from what was chosen."""
    decode, chosen = (candidate.decode_worker, candidate.decode_rank), (taken.decode_worker, taken.decode_rank)
    if candidate.prefill_worker and (not candidate.decode_worker or decode == chosen):
        return target(candidate.prefill_worker, candidate.prefill_rank)
    return target(*decode)


def setting(record: router_pb2.DecisionRecord) -> str:
    known = {"exact": "exactly", "approximate": "approximately"}.get(record.mode, record.mode or "not at all")
    return (
        f"{record.prompt_tokens} prompt tokens, model {record.model}, service {record.service}, "
        f"policy {record.policy}, caches known {known}"
    )


def _shown(record: router_pb2.DecisionRecord) -> list[router_pb2.Candidate]:
    ordered = _by_cost(record)
    first = ordered[:_SHOWN]
    return first if any(it.chosen for it in first) else [*first[:-1], *(it for it in ordered if it.chosen)]


def _by_cost(record: router_pb2.DecisionRecord) -> list[router_pb2.Candidate]:
    able = [candidate for candidate in record.candidates if not candidate.excluded_because]
    return sorted(able, key=lambda candidate: (candidate.cost_ms, not candidate.chosen))


def _telling(candidates: Sequence[router_pb2.Candidate]) -> list[str]:
    """Return the terms that are not zero everywhere, in the order of their columns."""
    names = {name for it in candidates for name, value in it.terms_ms.items() if abs(value) >= 0.005}  # noqa: PLR2004  what would print as zero
    order = list(_TERMS)
    return sorted(names, key=lambda name: (order.index(name) if name in _TERMS else len(order), name))


def _row(candidate: router_pb2.Candidate, terms: Sequence[str], *, split: bool, digits: int) -> list[str]:
    prefill = [target(candidate.prefill_worker, candidate.prefill_rank), str(candidate.prefill_hit_tokens)]
    return [
        "*" if candidate.chosen else "",
        *(prefill if split else []),
        target(candidate.decode_worker, candidate.decode_rank),
        str(candidate.decode_hit_tokens),
        *(f"{candidate.terms_ms[term]:.{digits}f}" if term in candidate.terms_ms else "" for term in terms),
        f"{candidate.cost_ms:.{digits}f}",
    ]


def chosen_of(record: router_pb2.DecisionRecord) -> router_pb2.Candidate | None:
    return next((candidate for candidate in record.candidates if candidate.chosen), None)


def _head(term: str) -> str:
    return _TERMS[term].head if term in _TERMS else words(term)


def words(name: str) -> str:
    return name.lower().replace("_", " ")


def target(worker: str, rank: int) -> str:
    return f"{worker}/{rank}" if rank else worker
