"""Recorded decisions of routers, made again among the candidates that the record holds.  Pure.

Problem.  Whoever changes a weight or a rule wants to know what it would have done with last week's requests.
Idea.  A record holds each candidate with the terms of its cost and its cached tokens: whatever goes by these can be
asked again.
Trade-off.  A record holds neither the loads nor the order of arrivals: rules that go by those (`round-robin`,
`least-request`, those after other projects) cannot be asked, and what an earlier difference would have led to is not
seen.  `inferplane simulate` plays that.
Invariant.  A request that went nowhere, or that had no choice, counts for nothing.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from inferplane_api.proto.router_pb2 import PICK_OUTCOME_ROUTED, Candidate, DecisionRecord

_EQUAL_MS: Final = 1.0
_EQUAL_SHARE: Final = 0.02
"""Costs this close are equal to the router, which then takes either."""

Weights = Mapping[str, float]
"""Factors by cost term; 1 where a term is not named."""
Order = Callable[[Candidate, Weights], tuple[float, ...]]
"""What is smallest for the candidate that a rule takes."""


def cost(candidate: Candidate, weights: Weights) -> float:
    """Return the cost with weighted terms, in milliseconds."""
    extra = sum((weights[term] - 1.0) * value for term, value in candidate.terms_ms.items() if term in weights)
    return candidate.cost_ms + extra


def cached(candidate: Candidate) -> int:
    """Return the prompt tokens that the computing side holds."""
    return candidate.prefill_hit_tokens if candidate.prefill_worker else candidate.decode_hit_tokens


RULES: Final = MappingProxyType[str, Order](
    {
        "kv-aware": lambda candidate, weights: (cost(candidate, weights),),
        "most-cached": lambda candidate, weights: (-cached(candidate), cost(candidate, weights)),
    }
)
UNKNOWABLE: Final = ("round-robin", "least-request", "block-cost", "sticky", "balanced-tree", "prefix-match")
"""Rules that go by what a record does not hold."""


@dataclass(frozen=True, slots=True)
class Redecided:
    """One request; `dearer_ms` is what was chosen over what is chosen now, by the weighted cost."""

    record: DecisionRecord
    recorded: Candidate
    now: Candidate
    dearer_ms: float
    more_cached: int
    """Tokens cached at what is chosen now over what was chosen."""

    @property
    def same(self) -> bool:
        return _place(self.recorded) == _place(self.now)

    def as_good(self, weights: Weights) -> bool:
        """Whether the two cost as good as the same."""
        least = min(cost(self.recorded, weights), cost(self.now, weights))
        return abs(self.dearer_ms) <= max(_EQUAL_MS, _EQUAL_SHARE * least)


def redecide(records: Iterable[DecisionRecord], rule: Order, weights: Weights) -> list[Redecided]:
    """Choose again for every request that had a choice."""
    found = list[Redecided]()
    for record in records:
        able = [candidate for candidate in record.candidates if not candidate.excluded_because]
        recorded = next((candidate for candidate in record.candidates if candidate.chosen), None)
        if record.outcome != PICK_OUTCOME_ROUTED or recorded is None or len(able) < 2:  # noqa: PLR2004  one is no choice
            continue
        now = min(able, key=lambda candidate: (*rule(candidate, weights), not candidate.chosen))
        dearer = cost(recorded, weights) - cost(now, weights)
        found.append(Redecided(record, recorded, now, dearer, cached(now) - cached(recorded)))
    return found


def _place(candidate: Candidate) -> tuple[str, int, str, int]:
    return candidate.decode_worker, candidate.decode_rank, candidate.prefill_worker, candidate.prefill_rank
