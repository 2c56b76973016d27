"""From one request to one place: filter, appraise, then let the service's policy pick.

Filters decide who may be asked at all and are the same for every policy; the appraisal gives every policy predicted
times; the policy picks.  Invariants: prefill and decode workers of different revisions never meet; a request that some
healthy worker could serve is not refused for want of a better one (suspect workers and a decode worker that prefills
itself are the last resorts).
"""

from enum import StrEnum
from typing import ClassVar, Final, Protocol, cast

import numpy as np

from inferplane_api.catalogue import RoutingMode
from inferplane_router.core import score_kernels as kernels
from inferplane_router.core.fleet import Fleet, Mask, Open
from inferplane_router.core.score_kernels import Floats, Slots, Terms
from inferplane_router.core.values import Ask, Hashes
from inferplane_runtime.values import value

_PRIORITY_REACH: Final = 6
_LEAST_HOLD_S: Final = 1.0
_NO_SLOTS: Final[Slots] = np.zeros(0, np.int64)


class NoPlace(StrEnum):
    """Why there is no place now."""

    NOBODY = "nobody"  # no worker may be asked
    NO_ROOM = "no room"  # all that may be asked are full


@value(frozen=True, slots=True)
class Choice:
    """Slots; `prefills` is empty when the decode target prefills itself."""

    decode: int
    prefills: tuple[int, ...]
    ttft_s: float
    tpot_s: float


@value(frozen=True, slots=True)
class View:
    """What a policy picks from: slots that may be asked, and everything known of them, by slot."""

    fleet: Fleet
    prefills: Slots
    decodes: Slots
    question: Floats
    terms: Terms
    seed: np.uint64
    """The first block's hash, or random bits when there is none: ties are broken by it."""
    hashes: list[Hashes]
    """The prompt's block hashes in each key space of the fleet."""

    def has_room(self, decode: int) -> bool:
        """Whether a decode target takes another request."""
        return bool(self.terms[decode, kernels.WAS_IN_FLIGHT] < self.fleet.tags[decode, kernels.MOST_REQUESTS])

    def ttft_s(self, decode: int, prefill: int | None) -> float:
        """Predict the time to the first token of a combination."""
        source = decode if prefill is None else prefill
        ttft = float(self.terms[source, kernels.PREFILLED_S] + self.terms[decode, kernels.TPOT_S])
        if prefill is not None:
            zones = int(self.fleet.tags[prefill, kernels.ZONE]), int(self.fleet.tags[decode, kernels.ZONE])
            moved = max(0.0, float(self.question[kernels.PROMPT] - self.terms[decode, kernels.HIT_TOKENS]))
            transfers = self.fleet.transfers
            ttft += float(transfers.base[zones] + transfers.per_token[zones] * moved)
        return ttft


class Policy(Protocol):
    """Picks from a view; None when nobody in it has room."""

    name: ClassVar[str]

    def pick(self, view: View) -> Choice | None: ...


@value(frozen=True, slots=True)
class Placed:
    """A choice with what it was made from, for the record."""

    choice: Choice
    view: View

    @property
    def hashes(self) -> list[Hashes]:
        return self.view.hashes


def place(fleet: Fleet, ask: Ask, policy: Policy, *, expected_output: float, seed: int) -> Placed | NoPlace:
    """Find a place for `ask`; `seed` breaks ties of prompts that have no block."""
    may_ask = allowed(fleet, ask)
    mode = ask.model.service.mode
    paired = may_ask.paired and mode is not RoutingMode.AGGREGATED
    alone = may_ask.alone and (mode is not RoutingMode.DISAGGREGATED or not paired)
    if not paired and not alone:
        return NoPlace.NOBODY
    hashes = fleet.find(ask.tokens, ask.model.adapter, ask.salt)
    question = _question(fleet, ask, expected_output, paired=paired, alone=alone)
    prefills = may_ask.prefills if paired else _NO_SLOTS
    terms = np.empty((fleet.size, kernels.TERMS), np.float32)
    for slots in (prefills, may_ask.decodes) if paired else (may_ask.decodes,):
        kernels.appraise(fleet.counts, fleet.speeds, fleet.load.rows, fleet.tags, question, slots, terms)
    view = View(fleet, prefills, may_ask.decodes, question, terms, _tie_breaker(hashes, seed), hashes)
    choice = policy.pick(view)
    return NoPlace.NO_ROOM if choice is None else Placed(choice, view)


def _tie_breaker(hashes: list[Hashes], seed: int) -> np.uint64:
    for keys in hashes:
        if keys.shape[0]:
            return np.uint64(keys[0])
    return np.uint64(seed)


def allowed(fleet: Fleet, ask: Ask) -> Open:
    """Filter: who may prefill and who may decode."""
    may = _may(fleet, ask)
    return fleet.open if may is None else Open.of(fleet, fleet.ready_prefill & may, fleet.ready_decode & may)


def _may(fleet: Fleet, ask: Ask) -> Mask | None:
    """Return who may be asked by name and adapter, None for all."""
    may: Mask | None = None
    if ask.model.adapter is not None:
        may = fleet.adapters.get(ask.model.adapter, np.zeros(fleet.size, np.bool_)).copy()
    if ask.exclude or ask.only:
        may = np.ones(fleet.size, np.bool_) if may is None else may
        for slot, ref in enumerate(fleet.refs):
            if ref is not None and (ref.worker_id in ask.exclude or (ask.only and ref.worker_id not in ask.only)):
                may[slot] = False
    return may


def _question(fleet: Fleet, ask: Ask, expected_output: float, *, paired: bool, alone: bool) -> Floats:
    service = ask.model.service
    ttft_s = service.ttft_s if ask.ttft_s is None else ask.ttft_s
    output = min(expected_output, ask.max_tokens) if ask.max_tokens else expected_output
    question = fleet.question.copy()
    cells = cast("memoryview[float]", question.data)  # single numbers are written faster this way
    cells[kernels.PROMPT] = 0 if ask.tokens is None else ask.tokens.shape[0]
    cells[kernels.OUTPUT] = max(1.0, output)
    cells[kernels.TTFT] = ttft_s
    cells[kernels.TPOT] = service.tpot_s if ask.tpot_s is None else ask.tpot_s
    cells[kernels.WEIGHT] = 2.0 ** max(-_PRIORITY_REACH, min(_PRIORITY_REACH, ask.priority))
    cells[kernels.HOLD] = max(ttft_s, _LEAST_HOLD_S)
    cells[kernels.PAIRED], cells[kernels.ALONE] = paired, alone
    return question
