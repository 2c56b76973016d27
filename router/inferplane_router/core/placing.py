"""From one request to one place: filter, appraise, then let the service's policy pick.

Filters decide who may be asked at all and are the same for every policy; the appraisal gives every policy predicted
times; the policy picks.  Invariants: prefill and decode workers of different revisions never meet; a request that some
healthy worker could serve is not refused for want of a better one (suspect workers and a decode worker that prefills
itself are the last resorts).
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Final, Protocol

import numpy as np

from inferplane_api.catalogue import RoutingMode
from inferplane_router.core import score_kernels as kernels
from inferplane_router.core.fleet import Fleet, Mask, Open
from inferplane_router.core.score_kernels import Floats, Slots, Terms
from inferplane_router.core.values import Ask, Hashes

_PRIORITY_REACH: Final = 6
_LEAST_HOLD_S: Final = 1.0


class NoPlace(StrEnum):
    """Why there is no place now."""

    NOBODY = "nobody"  # no worker may be asked
    NO_ROOM = "no room"  # all that may be asked are full


@dataclass(frozen=True, slots=True)
class Choice:
    """Slots; `prefills` is empty when the decode target prefills itself."""

    decode: int
    prefills: tuple[int, ...]
    ttft_s: float
    tpot_s: float


@dataclass(frozen=True, slots=True)
class View:
    """What a policy picks from: slots that may be asked, and everything known of them, by slot."""

    fleet: Fleet
    prefills: Slots
    decodes: Slots
    question: Floats
    terms: Terms
    seed: np.uint64
    """The first block's hash, or random bits when there is none: ties are broken by it."""

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


@dataclass(frozen=True, slots=True)
class Placed:
    """A choice with what it was made from, for the record."""

    choice: Choice
    view: View
    hashes: list[Hashes]


def place(fleet: Fleet, ask: Ask, policy: Policy, *, expected_output: float, seed: int) -> Placed | NoPlace:
    """Find a place for `ask`; `seed` breaks ties of prompts that have no block."""
    may_ask = allowed(fleet, ask)
    mode = ask.model.service.mode
    paired = may_ask.paired and mode is not RoutingMode.AGGREGATED
    alone = may_ask.alone and (mode is not RoutingMode.DISAGGREGATED or not paired)
    if not paired and not alone:
        return NoPlace.NOBODY
    hashes = fleet.find(ask.tokens, ask.model.adapter, ask.salt)
    question = _question(fleet, ask, expected_output)
    question[kernels.PAIRED], question[kernels.ALONE] = paired, alone
    prefills = may_ask.prefills if paired else may_ask.prefills[:0]
    terms = np.empty((fleet.size, kernels.TERMS), np.float32)
    for slots in (prefills, may_ask.decodes):
        kernels.appraise(fleet.counts, fleet.speeds, fleet.load.rows, fleet.tags, question, slots, terms)
    first = next((keys[0] for keys in hashes if keys.shape[0]), None)
    view = View(fleet, prefills, may_ask.decodes, question, terms, np.uint64(seed) if first is None else first)
    choice = policy.pick(view)
    return NoPlace.NO_ROOM if choice is None else Placed(choice, view, hashes)


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


def _question(fleet: Fleet, ask: Ask, expected_output: float) -> Floats:
    service = ask.model.service
    ttft_s = service.ttft_s if ask.ttft_s is None else ask.ttft_s
    output = min(expected_output, ask.max_tokens) if ask.max_tokens else expected_output
    question = fleet.question.copy()
    question[kernels.PROMPT] = 0 if ask.tokens is None else ask.tokens.shape[0]
    question[kernels.OUTPUT] = max(1.0, output)
    question[kernels.TTFT] = ttft_s
    question[kernels.TPOT] = service.tpot_s if ask.tpot_s is None else ask.tpot_s
    question[kernels.WEIGHT] = 2.0 ** max(-_PRIORITY_REACH, min(_PRIORITY_REACH, ask.priority))
    question[kernels.HOLD] = max(ttft_s, _LEAST_HOLD_S)
    return question
