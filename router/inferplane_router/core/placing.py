"""From one request to one place: filter, appraise, then let the service's policy pick.

Filters decide who may be asked at all and are the same for every policy; the appraisal gives every policy predicted
times; the policy picks.  Invariants: prefill and decode workers of different revisions never meet; a request that some
healthy worker could serve is not refused for want of a better one (suspect workers and a decode worker that prefills
itself are the last resorts).
"""

from collections.abc import Callable
from enum import StrEnum
from typing import ClassVar, Final, Protocol

import numpy as np

from inferplane_api.catalogue import RoutingMode
from inferplane_router.core import score_kernels as kernels
from inferplane_router.core.admission import hold_s
from inferplane_router.core.decide_kernels import Numbers, pose
from inferplane_router.core.fleet import Fleet, Mask, Open
from inferplane_router.core.objective import limits_of
from inferplane_router.core.score_kernels import Floats, Slots, Terms
from inferplane_router.core.values import Ask, Hashes, TargetRef
from inferplane_runtime.values import value

_PRIORITY_REACH: Final = 6
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

    @property
    def prefill(self) -> int | None:
        """The best of the prefill targets."""
        return self.prefills[0] if self.prefills else None

    @property
    def computing(self) -> int:
        """The target that computes the prompt."""
        return self.prefills[0] if self.prefills else self.decode


@value(frozen=True, slots=True)
class Appraisal:
    """What was known of the targets when one request was placed, by slot; nothing here is written to afterwards."""

    question: Floats
    terms: Terms
    asked: Slots
    """All who may be asked: those who may only prefill, then the decode targets."""
    prefills: Slots
    decodes: Slots
    refs: tuple[TargetRef | None, ...]
    zones: Slots
    links: Floats
    """See `cost.TransferModels`."""

    def knows(self, slot: int) -> bool:
        """Whether the slot was among those that could be asked."""
        return bool((self.asked == slot).any())

    def hit_tokens(self, slot: int) -> int:
        return int(self.terms.item(slot, kernels.HIT_TOKENS))

    def transfer_s(self, prefill: int, decode: int) -> float:
        """Predict how long the prompt's blocks take from one target to another."""
        moved = max(0.0, float(self.question[kernels.PROMPT] - self.terms[decode, kernels.HIT_TOKENS]))
        base, per_token = self.links[:, int(self.zones[prefill]), int(self.zones[decode])]
        return float(base + per_token * moved)


@value(frozen=True, slots=True)
class View:
    """What a policy picks from: slots that may be asked, and everything known of them, by slot."""

    fleet: Fleet
    appraisal: Appraisal
    seed: np.uint64
    """The first block's hash, or random bits when there is none: ties are broken by it."""
    hashes: list[Hashes]
    """The prompt's block hashes in each key space of the fleet."""

    @property
    def prefills(self) -> Slots:
        return self.appraisal.prefills

    @property
    def decodes(self) -> Slots:
        return self.appraisal.decodes

    @property
    def question(self) -> Floats:
        return self.appraisal.question

    @property
    def terms(self) -> Terms:
        return self.appraisal.terms

    def has_room(self, decode: int) -> bool:
        """Whether a decode target takes another request."""
        return bool(self.terms[decode, kernels.WAS_IN_FLIGHT] < self.fleet.tags[decode, kernels.MOST_REQUESTS])

    def ttft_s(self, decode: int, prefill: int | None) -> float:
        """Predict the time to the first token of a combination."""
        source = decode if prefill is None else prefill
        ttft = float(self.terms[source, kernels.PREFILLED_S] + self.terms[decode, kernels.TPOT_S])
        return ttft if prefill is None else ttft + self.appraisal.transfer_s(prefill, decode)


class Policy(Protocol):
    """Picks from a view; None when nobody in it has room."""

    name: ClassVar[str]

    def pick(self, view: View) -> Choice | None: ...


Chooser = Callable[[View, Numbers], Choice | None]
"""Fills in the view's appraisal of a request, and picks."""


def in_steps(policy: Policy) -> Chooser:
    """Appraise, then let any policy pick."""

    def choose(view: View, numbers: Numbers) -> Choice | None:
        fleet, question = view.fleet, view.question
        pose(fleet.question, numbers, question)
        kernels.appraise(
            fleet.counts, fleet.speeds, fleet.load.rows, fleet.tags, question, view.appraisal.asked, view.terms
        )
        return policy.pick(view)

    return choose


@value(frozen=True, slots=True)
class Placed:
    """A choice with what it was made from, for the record."""

    choice: Choice
    view: View


def place(fleet: Fleet, ask: Ask, choose: Chooser, *, expected_output: float, seed: int) -> Placed | NoPlace:
    """Find a place for `ask`; `seed` breaks ties of prompts that have no block."""
    may_ask = allowed(fleet, ask)
    mode = ask.model.service.mode
    paired = may_ask.paired and mode is not RoutingMode.AGGREGATED
    alone = may_ask.alone and (mode is not RoutingMode.DISAGGREGATED or not paired)
    if not paired and not alone:
        return NoPlace.NOBODY
    hashes = fleet.find(ask)
    decodes = may_ask.decodes
    appraisal = Appraisal(
        np.empty(kernels.QUESTION),
        np.empty((fleet.size, kernels.TERMS), np.float32),
        may_ask.both if paired else decodes,
        may_ask.prefills if paired else _NO_SLOTS,
        decodes,
        fleet.refs,
        fleet.zones,
        fleet.transfers.links,
    )
    view = View(fleet, appraisal, _tie_breaker(hashes, seed), hashes)
    choice = choose(view, _numbers(ask, expected_output, paired=paired, alone=alone))
    return NoPlace.NO_ROOM if choice is None else Placed(choice, view)


def _tie_breaker(hashes: list[Hashes], seed: int) -> np.uint64:
    for keys in hashes:
        if keys.shape[0]:
            first: np.uint64 = keys[0]
            return first
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


def _numbers(ask: Ask, expected_output: float, *, paired: bool, alone: bool) -> Numbers:
    """Say in numbers what is asked; of exactly these types, since a kernel is compiled anew for others."""
    service = ask.model.service
    ttft_s, tpot_s = limits_of(ask)
    output = min(expected_output, ask.max_tokens) if ask.max_tokens else expected_output
    prompt = 0.0 if ask.tokens is None else float(ask.tokens.shape[0])
    weight = 2.0 ** max(-_PRIORITY_REACH, min(_PRIORITY_REACH, ask.priority)) if ask.priority else 1.0
    return prompt, max(1.0, float(output)), float(ttft_s), float(tpot_s), weight, hold_s(service.ttft_s), paired, alone
