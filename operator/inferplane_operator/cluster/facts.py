"""What must be asked beyond the API server before a service can be reconciled.

Each source answers at once from what it knows; where an answer may change soon, it says when to look again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from inferplane_operator.reconcile.values import Observed


@dataclass(frozen=True, slots=True)
class Gathered:
    """An observation with more in it."""

    observed: Observed
    again_in_s: float | None = None


class FactSource(Protocol):
    async def add_to(self, observed: Observed, /) -> Gathered:
        """Never raises: what cannot be found out is part of the answer."""
        ...

    def forget(self, namespace: str, name: str, /) -> None:
        """Drop what is kept about a service that is no more."""
        ...


async def gather(sources: Sequence[FactSource], observed: Observed) -> Gathered:
    again: float | None = None
    for source in sources:
        found = await source.add_to(observed)
        observed = found.observed
        again = sooner(again, found.again_in_s)
    return Gathered(observed, again)


def sooner(one: float | None, other: float | None) -> float | None:
    times = [time for time in (one, other) if time is not None]
    return min(times) if times else None
