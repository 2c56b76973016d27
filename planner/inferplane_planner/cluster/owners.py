"""Who sets the replicas of a pool: the last word counts.

Problem.  A person who scales by hand, an HPA and a planner write the same field, and a planner that overrules the
others is switched off for good.
Idea.  An API server keeps who wrote a field last.  Replicas that somebody else wrote are that somebody's, for as long
as nobody has said anew how the service is to be scaled: an edit of `spec.scaling` after that hands them back.
Trade-off.  An API server keeps no time of writes through the scale subresource, so such a write counts from when it was
seen first, and one that was there before this process did counts as new: a planner that starts anew leaves it alone
until the next edit.  Times are whole seconds; within one second, whoever set the replicas is right.
"""

from dataclasses import dataclass, field, replace
from typing import Final

from inferplane_planner.cluster.records import PoolRecord, ServiceRecord, Written

MANAGER: Final = "inferplane-planner"
_OURS: Final = frozenset({MANAGER, "inferplane-operator", "inferplane-operator-create"})
"""Those that set replicas for us, at first, and nobody."""


@dataclass(slots=True)
class LastWords:
    """Remembers since when a pool has had its replicas from whom."""

    _seen: dict[str, tuple[str, int, str]] = field(default_factory=dict[str, tuple[str, int, str]])
    """By uid: manager, replicas, and when both were seen first."""

    def dated(self, pool: PoolRecord, now: str) -> Written:
        """Return who set the replicas last, and when; `now` is the wall clock, RFC 3339."""
        last = pool.replicas_set
        if last.at:
            return last
        manager, replicas, _ = self._seen.get(pool.uid, ("", -1, ""))
        if (manager, replicas) != (last.manager, pool.replicas):
            self._seen[pool.uid] = last.manager, pool.replicas, now
        return replace(last, at=self._seen[pool.uid][2])


def other_owner(service: ServiceRecord, last: Written) -> str:
    """Return who else set the replicas of a pool; "" where they are the planner's to set."""
    if not last.manager or last.manager in _OURS or last.at < service.scaling_set.at:
        return ""
    return last.manager
