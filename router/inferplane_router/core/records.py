"""Why a request went where it went: a bounded ring of decisions, with what was observed afterwards.

Problem: every decision must be explainable, but most are never asked about.  Idea: keep the arrays that the decision
was made from, and write them out only when somebody asks: as fields, of which a message is made, or a line of a file,
which is cheaper.  Trade-off: a few kilobytes a decision; the oldest go first.
Invariant: the terms of a candidate add up to its cost.
"""

from collections import OrderedDict
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from inferplane_api.proto.router_pb2 import PICK_OUTCOME_ROUTED, DecisionRecord, PickOutcome
from inferplane_api.proto.worker_pb2 import RequestReport
from inferplane_router.core import exclusions
from inferplane_router.core import score_kernels as kernels
from inferplane_router.core.crowd import Crowd
from inferplane_router.core.placing import Appraisal, Choice
from inferplane_router.core.values import Ask

_CANDIDATES: Final = 64
_REPORTS: Final = 8
_MS: Final = 1000.0
NOWHERE: Final = Choice(-1, (), 0.0, 0.0)
Fields = dict[str, Any]
"""A `DecisionRecord`, or a `Candidate`, by the names of its fields; as plain values, but for the reports."""


@dataclass(slots=True)
class Decision:
    """One decision and what became of it."""

    ask: Ask
    decided_at: float
    policy: str
    outcome: PickOutcome
    reason: str = ""
    choice: Choice = NOWHERE
    queued_s: float = 0.0
    block_size: int = 0
    exact: bool = True
    appraisal: Appraisal | None = None
    crowd: Crowd | None = None
    """Who there was; None where the decision came before a look at them."""
    reports: list[RequestReport] = field(default_factory=list[RequestReport])

    @property
    def places(self) -> tuple[str, str]:
        """The workers that prefill and decode; empty where there is none."""
        if self.appraisal is None or self.choice.decode < 0:
            return "", ""
        prefill, refs = self.choice.prefill, self.appraisal.refs
        source, target = None if prefill is None else refs[prefill], refs[self.choice.decode]
        return source.worker_id if source else "", target.worker_id if target else ""


class Records:
    """The last decisions by request id."""

    def __init__(self, limit: int = 2048) -> None:
        self._limit = limit
        self._decisions: OrderedDict[str, Decision] = OrderedDict()

    def add(self, decision: Decision) -> None:
        """Keep a decision; one of the same request (a retry, or out of the queue) is replaced."""
        self._decisions.pop(decision.ask.request_id, None)
        self._decisions[decision.ask.request_id] = decision
        if len(self._decisions) > self._limit:
            self._decisions.popitem(last=False)

    def get(self, request_id: str) -> Decision | None:
        return self._decisions.get(request_id)

    def latest(self, count: int) -> list[Decision]:
        """Return the last decisions, the newest first."""
        return list(islice(reversed(self._decisions.values()), count))

    def observe(self, report: RequestReport) -> Decision | None:
        """Attach a report to its decision; None where that is not kept any more."""
        decision = self._decisions.get(report.request_id)
        if decision is None or report.nonce not in {0, decision.ask.nonce}:
            return None
        if len(decision.reports) < _REPORTS:
            decision.reports.append(report)
        return decision


def readable(decision: Decision, *, mismatch: str = "") -> DecisionRecord:
    """Write a decision out as a message."""
    return DecisionRecord(**account(decision, mismatch=mismatch))


def account(decision: Decision, *, mismatch: str = "") -> Fields:
    """Write a decision out; `mismatch` says why the events of the worker that computed are not believed."""
    ask = decision.ask
    return {
        "request_id": ask.request_id,
        "decided_at": decision.decided_at,
        "service": ask.model.service.name,
        "namespace": ask.model.service.namespace,
        "model": ask.model.asked_name,
        "policy": decision.policy,
        "outcome": decision.outcome,
        "reason": decision.reason,
        "prompt_tokens": 0 if ask.tokens is None else ask.tokens.shape[0],
        "block_size": decision.block_size,
        "predicted_ttft_s": decision.choice.ttft_s,
        "predicted_tpot_s": decision.choice.tpot_s,
        "queued_s": decision.queued_s,
        "mode": "exact" if decision.exact else "approximate",
        "mismatch": mismatch,
        "observed": decision.reports,
        **_considered(decision),
    }


def _considered(decision: Decision) -> Fields:
    """Write out who was asked, and who was not."""
    appraisal, choice = decision.appraisal, decision.choice
    found: Fields = {"candidates": []}
    if appraisal is not None and decision.outcome == PICK_OUTCOME_ROUTED:
        found = {
            "predicted_prefill_cached_tokens": appraisal.hit_tokens(choice.computing),
            "predicted_decode_cached_tokens": appraisal.hit_tokens(choice.decode),
            "candidates": _candidates(decision, appraisal),
        }
    if decision.crowd is not None:
        among = frozenset[int]() if appraisal is None else exclusions.asked(appraisal.prefills, appraisal.decodes)
        room = _CANDIDATES - len(found["candidates"])
        found["candidates"] += islice(exclusions.not_asked(decision.ask, decision.crowd, among), room)
    return found


def _candidates(decision: Decision, appraisal: Appraisal) -> list[Fields]:
    """Write the chosen combination and every other that differs from it in one side; cheapest first."""
    chosen = decision.choice.prefill
    pairs = [(decode, chosen) for decode in appraisal.decodes.tolist()]
    if chosen is not None:
        pairs += [(decision.choice.decode, prefill) for prefill in appraisal.prefills.tolist() if prefill != chosen]
    found = [_candidate(decision, appraisal, decode, prefill) for decode, prefill in pairs]
    found.sort(key=lambda each: (not each["chosen"], bool(each["excluded_because"]), each["cost_ms"]))
    return found[:_CANDIDATES]


def _candidate(decision: Decision, appraisal: Appraisal, decode: int, prefill: int | None) -> Fields:
    terms_s = _terms(appraisal, decode, prefill)
    source, target = None if prefill is None else appraisal.refs[prefill], appraisal.refs[decode]
    chosen = (decode, prefill) == (decision.choice.decode, decision.choice.prefill)
    excluded_because = ""
    if not chosen and decision.crowd is not None:
        excluded_because = exclusions.not_choosable(
            decision.crowd, appraisal.terms, appraisal.question, decode, prefill
        )
    return {
        "decode_worker": target.worker_id if target else "",
        "decode_rank": target.rank if target else 0,
        "prefill_worker": source.worker_id if source else "",
        "prefill_rank": source.rank if source else 0,
        "chosen": chosen,
        "excluded_because": excluded_because,
        "prefill_hit_tokens": appraisal.hit_tokens(decode if prefill is None else prefill),
        "decode_hit_tokens": appraisal.hit_tokens(decode),
        "terms_ms": {name: seconds * _MS for name, seconds in terms_s.items()},
        "cost_ms": sum(terms_s.values()) * _MS,
    }


def _terms(appraisal: Appraisal, decode: int, prefill: int | None) -> dict[str, float]:
    """Split a combination's cost as `score_kernels.choose` computes it."""
    question = appraisal.question
    of_decode, of_source = appraisal.terms[decode], appraisal.terms[decode if prefill is None else prefill]
    ttft_s = float(of_source[kernels.PREFILLED_S] + of_decode[kernels.TPOT_S])
    ttft_s += 0.0 if prefill is None else appraisal.transfer_s(prefill, decode)
    missed_s = kernels.expected_overrun(ttft_s, question[kernels.TTFT], of_source[kernels.SPREAD], question)
    return {
        "ttft_overrun": float(question[kernels.WEIGHT]) * missed_s,
        "own_ttft": float(question[kernels.OWN_LATENCY]) * ttft_s,
        "prefill_delay_to_others": float(of_source[kernels.PREFILL_OTHERS]),
        "decode": float(of_decode[kernels.DECODE_COST]),
        "stalled_decodes": float(of_decode[kernels.STALL_S]) if prefill is None else 0.0,
    }
