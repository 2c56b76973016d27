"""Whose turn it is: tenants share what is given away, whatever each of them asks for.

Problem: whoever asks most would get most.  Idea: start-time fair queueing.  Each tenant has a virtual time that goes on
by the work it was given; the one furthest behind is next, and nobody is further behind than the last one served.
Trade-off: all tenants have one weight.  Invariant: of two tenants that both always wait, neither is ahead of the other
by more than the work of one request of each; who was away saves up nothing.
"""

from collections.abc import Container
from dataclasses import dataclass, field


@dataclass(slots=True)
class Turns:
    _ends: dict[str, float] = field(default_factory=dict[str, float])
    """Virtual time at which each tenant's share so far is used up."""
    _now: float = 0.0

    def begins(self, tenant: str) -> float:
        """Return the virtual time of a tenant's next turn; the smallest is next."""
        return max(self._now, self._ends.get(tenant, 0.0))

    def charge(self, tenant: str, work: float, waiting: Container[str]) -> None:
        """Follow that a tenant was given so much; tenants that do not wait and are not ahead are forgotten."""
        self._now = self.begins(tenant)
        self._ends[tenant] = self._now + work
        self._ends = {name: end for name, end in self._ends.items() if end > self._now or name in waiting}
