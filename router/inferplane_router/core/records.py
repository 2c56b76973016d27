"""Why a request went where it went: a bounded ring of decisions, with what was observed afterwards.

Problem: every decision must be explainable, but most are never asked about.  Idea: keep the arrays that the decision
was made from, and write the readable record only when somebody asks.  Trade-off: a few kilobytes a decision; the
oldest go first.  Invariant: the terms of a candidate add up to its cost.
"""

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from inferplane_api.proto.router_pb2 import (
    PICK_OUTCOME_ROUTED,
    Candidate,
    DecisionRecord,
    PickOutcome,
)
from inferplane_api.proto.worker_pb2 import RequestReport
from inferplane_router.core import score_kernels as kernels
from inferplane_router.core.index_kernels import FIRM
from inferplane_router.core.placing import Placed
from inferplane_router.core.score_kernels import Floats, Slots
from inferplane_router.core.values import Ask, TargetRef

_CANDIDATES: Final = 64
_REPORTS: Final = 8
_MS: Final = 1000.0


@dataclass(frozen=True, slots=True)
class Appraisal:
    """What was known of the targets when one request was placed; rows go with `slots`."""

    slots: Slots
    terms: NDArray[np.float32]
    spreads: NDArray[np.float32]
    loads: NDArray[np.float32]
    firm_tokens: Slots
    question: Floats
    refs: tuple[TargetRef | None, ...]
    prefills: Slots
    decodes: Slots
    transfer_s: NDArray[np.float32]
    """From the chosen prefill target to each decode target, then from each prefill target to the chosen decode one."""

    def row(self, slot: int) -> int | None:
        """Return the row of a slot, None when it was not asked."""
        at = int(np.searchsorted(self.slots, slot))
        return at if at < self.slots.shape[0] and self.slots[at] == slot else None

    def hit_tokens(self, slot: int) -> int:
        at = self.row(slot)
        return 0 if at is None else int(self.terms[at, kernels.HIT_TOKENS])


def appraisal_of(placed: Placed) -> Appraisal:
    """Copy from the fleet's arrays what explains this decision."""
    view, choice = placed.view, placed.choice
    fleet = view.fleet
    slots = np.union1d(view.prefills, view.decodes)
    transfers = np.zeros(view.decodes.shape[0] + view.prefills.shape[0], np.float32)
    if choice.prefills:
        moved = np.maximum(0.0, view.question[kernels.PROMPT] - view.terms[:, kernels.HIT_TOKENS])
        zones = fleet.tags[:, kernels.ZONE]
        source, destination = zones[choice.prefills[0]], zones[choice.decode]
        links = fleet.transfers
        to = zones[view.decodes]
        transfers[: to.shape[0]] = links.base[source, to] + links.per_token[source, to] * moved[view.decodes]
        origin = zones[view.prefills]
        per_token = links.per_token[origin, destination]
        transfers[to.shape[0] :] = links.base[origin, destination] + per_token * moved[choice.decode]
    return Appraisal(
        slots=slots,
        terms=view.terms[slots].astype(np.float32),
        spreads=fleet.speeds[slots, kernels.PREFILL_SPREAD].astype(np.float32),
        loads=fleet.load.rows[slots].astype(np.float32),
        firm_tokens=fleet.counts[slots, FIRM].astype(np.int64) * fleet.tags[slots, kernels.BLOCK_SIZE],
        question=view.question,
        refs=fleet.refs,
        prefills=view.prefills,
        decodes=view.decodes,
        transfer_s=transfers,
    )


@dataclass(slots=True)
class Decision:
    """One decision and what became of it."""

    ask: Ask
    decided_at: float
    policy: str
    outcome: PickOutcome
    reason: str = ""
    decode: int = -1
    prefills: tuple[int, ...] = ()
    ttft_s: float = 0.0
    tpot_s: float = 0.0
    queued_s: float = 0.0
    block_size: int = 0
    exact: bool = True
    appraisal: Appraisal | None = None
    reports: list[RequestReport] = field(default_factory=list[RequestReport])


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

    def observe(self, report: RequestReport) -> Decision | None:
        """Attach a report to its decision."""
        decision = self._decisions.get(report.request_id)
        if decision is not None and len(decision.reports) < _REPORTS:
            decision.reports.append(report)
        return decision


def readable(decision: Decision) -> DecisionRecord:
    """Write a decision out."""
    ask = decision.ask
    record = DecisionRecord(
        request_id=ask.request_id,
        decided_at=decision.decided_at,
        service=ask.model.service.name,
        model=ask.model.asked_name,
        policy=decision.policy,
        outcome=decision.outcome,
        reason=decision.reason,
        prompt_tokens=0 if ask.tokens is None else ask.tokens.shape[0],
        block_size=decision.block_size,
        predicted_ttft_s=decision.ttft_s,
        predicted_tpot_s=decision.tpot_s,
        queued_s=decision.queued_s,
        mode="exact" if decision.exact else "approximate",
        observed=decision.reports,
    )
    appraisal = decision.appraisal
    if appraisal is not None and decision.outcome == PICK_OUTCOME_ROUTED:
        computing = decision.prefills[0] if decision.prefills else decision.decode
        record.predicted_prefill_cached_tokens = appraisal.hit_tokens(computing)
        record.predicted_decode_cached_tokens = appraisal.hit_tokens(decision.decode)
        record.candidates.extend(_candidates(decision, appraisal))
    return record


def _candidates(decision: Decision, appraisal: Appraisal) -> list[Candidate]:
    """The chosen combination, and every other that differs from it in one side; cheapest first."""
    found: list[Candidate] = []
    if decision.prefills:
        prefill = decision.prefills[0]
        for at, slot in enumerate(appraisal.decodes.tolist()):
            found.append(_candidate(decision, appraisal, slot, prefill, float(appraisal.transfer_s[at])))
        offset = appraisal.decodes.shape[0]
        for at, slot in enumerate(appraisal.prefills.tolist()):
            if slot != prefill:
                transfer_s = float(appraisal.transfer_s[offset + at])
                found.append(_candidate(decision, appraisal, decision.decode, slot, transfer_s))
    else:
        found = [_candidate(decision, appraisal, slot, None, 0.0) for slot in appraisal.decodes.tolist()]
    found.sort(key=lambda candidate: (not candidate.chosen, candidate.cost_ms))
    return found[:_CANDIDATES]


def _candidate(
    decision: Decision, appraisal: Appraisal, decode: int, prefill: int | None, transfer_s: float
) -> Candidate:
    terms_s = _terms(appraisal, decode, prefill, transfer_s)
    refs = appraisal.refs
    source, target = None if prefill is None else refs[prefill], refs[decode]
    chosen_prefill = decision.prefills[0] if decision.prefills else None
    return Candidate(
        decode_worker=target.worker_id if target else "",
        decode_rank=target.rank if target else 0,
        prefill_worker=source.worker_id if source else "",
        prefill_rank=source.rank if source else 0,
        chosen=decode == decision.decode and prefill == chosen_prefill,
        prefill_hit_tokens=appraisal.hit_tokens(decode if prefill is None else prefill),
        decode_hit_tokens=appraisal.hit_tokens(decode),
        terms_ms={name: seconds * _MS for name, seconds in terms_s.items()},
        cost_ms=sum(terms_s.values()) * _MS,
    )


def _terms(appraisal: Appraisal, decode: int, prefill: int | None, transfer_s: float) -> dict[str, float]:
    """Split a combination's cost as `score_kernels.choose` computes it."""
    question = appraisal.question
    source = decode if prefill is None else prefill
    at, from_at = appraisal.row(decode), appraisal.row(source)
    if at is None or from_at is None:
        return {}
    of_decode, of_source = appraisal.terms[at], appraisal.terms[from_at]
    ttft_s = float(of_source[kernels.PREFILLED_S] + of_decode[kernels.TPOT_S]) + transfer_s
    overrun = kernels.expected_overrun(ttft_s, question[kernels.TTFT], float(appraisal.spreads[from_at]), question)
    return {
        "ttft_overrun": float(question[kernels.WEIGHT]) * overrun,
        "own_ttft": float(question[kernels.OWN_LATENCY]) * ttft_s,
        "prefill_delay_to_others": float(of_source[kernels.PREFILL_OTHERS]),
        "decode": float(of_decode[kernels.DECODE_COST]),
        "stalled_decodes": float(of_decode[kernels.STALL_S]) if prefill is None else 0.0,
    }
