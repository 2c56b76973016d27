"""What finished requests teach: speeds for the cost model, tests for the trust in a worker's events.

Problem: predictions are only as good as what they were last compared with.  Idea: a report is matched with its
decision, whose arrays still say what was predicted for that very worker (a fall-back included).  Evidence about blocks
is weighed a little later, since block events may come after the report: soon where the blocks are there by then, else
when they must have come, unless so much was computed meanwhile that a cache of this size has let go of them.
Trade-off: only requests that this router placed itself are used; other routers learn from theirs.
Invariant: bounded work and memory per report; a report of an unknown request changes nothing.
"""

import math
from collections import deque
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final

from inferplane_api.proto import worker_pb2
from inferplane_router.core import cost
from inferplane_router.core import score_kernels as kernels
from inferplane_router.core.fleet import Fleet
from inferplane_router.core.mismatch import Evidence
from inferplane_router.core.placing import Appraisal, Choice
from inferplane_router.core.records import Decision
from inferplane_router.core.roster import Worker
from inferplane_router.core.values import Mismatch
from inferplane_router.core.worker_names import is_called

_SOON_S: Final = 0.25
_SETTLE_S: Final = 2.0
_RENEWED: Final = 2
"""A cache may have been renewed when a half of it was written: what runs takes room, and others may route there."""
_MOST_PENDING: Final = 4096
_OUTPUT_GAIN: Final = 0.05


@dataclass(frozen=True, slots=True)
class _Test:
    due: float
    worker: Worker
    engine_start: str
    slot: int
    decision: Decision
    reported_prompt_tokens: int
    observed_tokens: int
    computed_before: int
    """Tokens that this target was seen to compute until then."""


class Feedback:
    """Learns for one service."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self.expected_output = fleet.settings.output_tokens
        self.convictions: dict[Mismatch, int] = {}
        self._fresh: deque[_Test] = deque(maxlen=_MOST_PENDING)
        self._late: deque[_Test] = deque(maxlen=_MOST_PENDING)
        """Those whose blocks were not there soon."""
        self._computed: dict[int, int] = {}
        """Tokens by target, of prompts and answers."""

    def take(self, worker: Worker, report: worker_pb2.RequestReport, decision: Decision, now: float) -> None:
        """Use one report of a request that this router placed on `worker`."""
        appraisal = decision.appraisal
        if appraisal is None or report.dp_rank >= len(worker.slots):
            return
        slot = worker.slots[report.dp_rank]
        ref = appraisal.refs[slot] if slot < len(appraisal.refs) and appraisal.knows(slot) else None
        if ref is None or ref.worker_id != worker.entry.worker_id:
            return
        computed = report.prompt_tokens - report.cached_tokens + report.output_tokens
        self._computed[slot] = self._computed.get(slot, 0) + computed
        if report.outcome == worker_pb2.OUTCOME_OK:
            self._learn(worker, slot, report, appraisal, decision.choice)
        if decision.ask.tokens is not None and report.outcome in {
            worker_pb2.OUTCOME_OK,
            worker_pb2.OUTCOME_CLIENT_GONE,
        }:
            self._schedule(worker, slot, report, decision, now)

    def settle(self, now: float) -> None:
        """Weigh the evidence whose time has come."""
        while self._fresh and self._fresh[0].due <= now:
            test = self._fresh.popleft()
            if not self._weigh(test, last=False):
                self._late.append(replace(test, due=test.due + _SETTLE_S - _SOON_S))
        while self._late and self._late[0].due <= now:
            self._weigh(self._late.popleft(), last=True)

    def next_due(self) -> float | None:
        return min((tests[0].due for tests in (self._fresh, self._late) if tests), default=None)

    def _learn(
        self, worker: Worker, slot: int, report: worker_pb2.RequestReport, appraisal: Appraisal, choice: Choice
    ) -> None:
        pool = worker.entry.pool
        model = self._fleet.pools[pool]
        then, prompt = appraisal.terms[slot], float(report.prompt_tokens)
        handed_over = bool(report.prefill_worker) and not is_called(worker.entry.worker_id, report.prefill_worker)
        if not handed_over and report.cached_tokens_known and _is_time(report.prefill_s):
            cached = float(report.cached_tokens)
            features = cost.prefill_features(float(then[kernels.WAS_AHEAD]), max(1.0, prompt - cached), cached)
            taken_s = report.prefill_s + (report.queue_s if _is_time(report.queue_s) else 0.0)
            self._adjust(slot, kernels.PREFILL_FACTOR, model.prefill.observe(features, taken_s))
        if report.side != worker_pb2.ROLE_PREFILL and report.output_tokens > 1 and _is_time(report.tpot_s):
            context = float(then[kernels.WAS_CONTEXT]) + prompt + report.output_tokens / 2
            features = cost.step_features(float(then[kernels.WAS_IN_FLIGHT]) + 1, context)
            self._adjust(slot, kernels.STEP_FACTOR, model.step.observe(features, report.tpot_s))
        if report.side != worker_pb2.ROLE_PREFILL:
            self.expected_output += _OUTPUT_GAIN * (report.output_tokens - self.expected_output)
        if handed_over and _is_time(report.transfer_s):
            self._learn_transfer(slot, report, appraisal, choice)
        self._fleet.publish(pool)

    def _learn_transfer(
        self, slot: int, report: worker_pb2.RequestReport, appraisal: Appraisal, choice: Choice
    ) -> None:
        for source in chain(choice.prefills, appraisal.prefills.tolist()):  # mostly the first of all
            ref = appraisal.refs[source]
            if ref is not None and is_called(ref.worker_id, report.prefill_worker):
                zones = int(self._fleet.tags[source, kernels.ZONE]), int(self._fleet.tags[slot, kernels.ZONE])
                self._fleet.transfers.observe(*zones, float(report.transferred_tokens), report.transfer_s)
                return

    def _adjust(self, slot: int, column: int, ratio: float) -> None:
        """Move a target's factor towards what sets it apart from its pool."""
        settings = self._fleet.settings
        row = self._fleet.speeds[slot]
        target = min(settings.factor_most, max(settings.factor_least, ratio))
        row[column] += settings.factor_gain * (target - row[column])

    def _schedule(
        self, worker: Worker, slot: int, report: worker_pb2.RequestReport, decision: Decision, now: float
    ) -> None:
        computed_here = not report.prefill_worker or is_called(worker.entry.worker_id, report.prefill_worker)
        if computed_here:
            known, observed = report.cached_tokens_known, report.cached_tokens
        else:
            known, observed = report.decode_cached_tokens_known, report.decode_cached_tokens
        if known and worker.identity is not None:
            start, before = worker.identity.engine_start, self._computed.get(slot, 0)
            prompt = report.prompt_tokens
            self._fresh.append(_Test(now + _SOON_S, worker, start, slot, decision, prompt, observed, before))

    def _weigh(self, test: _Test, *, last: bool) -> bool:
        """Weigh a test, unless its blocks are not there and may still come; return whether it is done with."""
        worker, ask, appraisal = test.worker, test.decision.ask, test.decision.appraisal
        space = worker.space
        if (
            worker.identity is None
            or worker.identity.engine_start != test.engine_start
            or test.slot not in worker.slots
        ):
            return True
        if space is None or appraisal is None or ask.tokens is None:
            return True
        keys = space.hash(ask, ask.tokens)
        held = space.index.held(test.slot, keys)
        if keys.shape[0] and not held and (not last or self._was_renewed(test, space.key.block_size)):
            return last
        evidence = Evidence(
            prompt_tokens=ask.tokens.shape[0],
            reported_prompt_tokens=test.reported_prompt_tokens,
            block_size=space.key.block_size,
            indexed_tokens=int(appraisal.terms[test.slot, kernels.FIRM_TOKENS]),
            predicted_tokens=appraisal.hit_tokens(test.slot),
            observed_tokens=test.observed_tokens,
            expected_blocks=keys.shape[0],
            held_blocks=held,
            salted=ask.salt is not None,
            adapter=ask.model.adapter is not None,
            templated=ask.templated,
        )
        if worker.trust.test(evidence):
            worker.show_trust()
            if worker.trust.cause is not Mismatch.NONE:
                self.convictions[worker.trust.cause] = self.convictions.get(worker.trust.cause, 0) + 1
        return True

    def _was_renewed(self, test: _Test, block_size: int) -> bool:
        """Say whether a cache of this size may have let go of a test's blocks."""
        capacity = self._fleet.kv_blocks.item(test.slot)
        blocks = (self._computed.get(test.slot, 0) - test.computed_before) // block_size
        return 0 < capacity <= _RENEWED * blocks


def computing_s(worker: Worker, report: worker_pb2.RequestReport, decision: Decision) -> float | None:
    """Return what was predicted for a prompt's wait and computation on this worker; None if it did not compute it."""
    appraisal = decision.appraisal
    if appraisal is None or report.outcome != worker_pb2.OUTCOME_OK or report.dp_rank >= len(worker.slots):
        return None
    if report.prefill_worker and not is_called(worker.entry.worker_id, report.prefill_worker):
        return None
    slot = worker.slots[report.dp_rank]
    return float(appraisal.terms[slot, kernels.PREFILLED_S]) if appraisal.knows(slot) else None


def _is_time(seconds: float) -> bool:
    return math.isfinite(seconds) and seconds >= 0
