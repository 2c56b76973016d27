"""Is what the index says of a worker what the worker has: two sets of blocks compared, and compared again.

Problem: the index is a copy that is kept by deltas, so a delta that is lost, applied twice or applied to the wrong row
stays wrong until somebody looks, and blocks come and go while one looks.  Idea: take what differs in two comparisons
some moments apart; what was only on its way differs in one of them.  Trade-off: a block that is wrong now and right
later, or the other way round, is not seen; what is found is wrong indeed.
Invariant: two sets that follow each other with a delay shorter than that between the comparisons never differ.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from inferplane_router.core.values import Hashes

Place = tuple[int, int]
"""(data-parallel rank, plane of the index)."""
Held = Mapping[Place, Hashes]
"""The blocks of one worker."""
_NOTHING: Hashes = np.zeros(0, np.uint64)


@dataclass(frozen=True, slots=True)
class Difference:
    """Blocks of one rank in one plane."""

    rank: int
    plane: int
    there: int
    """How many the worker has."""
    missing: Hashes
    """What the worker has and the index does not know of; sorted."""
    surplus: Hashes
    """What the index says the worker has; sorted."""

    @property
    def is_none(self) -> bool:
        return not (self.missing.shape[0] or self.surplus.shape[0])


def compare(worker: Held, index: Held) -> list[Difference]:
    """Compare place by place, in order; of a place that one side does not name it has nothing."""
    return [
        _difference(place, worker.get(place, _NOTHING), index.get(place, _NOTHING))
        for place in sorted(worker.keys() | index.keys())
    ]


def lasting(before: list[Difference], now: list[Difference]) -> list[Difference]:
    """Return the later comparison without what did not differ in the earlier one."""
    known = {(each.rank, each.plane): each for each in before}
    return [_lasting(known.get((each.rank, each.plane)), each) for each in now]


def _difference(place: Place, there: Hashes, here: Hashes) -> Difference:
    rank, plane = place
    return Difference(rank, plane, np.unique(there).shape[0], np.setdiff1d(there, here), np.setdiff1d(here, there))


def _lasting(before: Difference | None, now: Difference) -> Difference:
    if before is None:
        return Difference(now.rank, now.plane, now.there, _NOTHING, _NOTHING)
    missing, surplus = np.intersect1d(before.missing, now.missing), np.intersect1d(before.surplus, now.surplus)
    return Difference(now.rank, now.plane, now.there, missing, surplus)
