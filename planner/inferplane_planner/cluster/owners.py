"""Who sets the replicas of a pool: the last word counts.

Problem.  A person who scales by hand, an HPA and a planner write the same field, and a planner that overrules the
others is switched off for good.
Idea.  An API server keeps who wrote a field last, and when.  Replicas that somebody else wrote are that somebody's, for
as long as nobody has said anew how the service is to be scaled: an edit of `spec.scaling` after that hands them back.
Trade-off.  Times are whole seconds, and belong to all that one writer wrote: any later edit by who wrote
`spec.scaling` counts as one of it.  Within one second, whoever set the replicas is right.
"""

from typing import Final

from inferplane_planner.cluster.records import PoolRecord, ServiceRecord

MANAGER: Final = "inferplane-planner"
_OURS: Final = frozenset({MANAGER, "inferplane-operator", "inferplane-operator-create"})
"""Those that set replicas for us, at first, and nobody."""


def other_owner(service: ServiceRecord, pool: PoolRecord) -> str:
    """Return who else set the replicas of a pool; "" where they are the planner's to set."""
    last = pool.replicas_set
    if not last.manager or last.manager in _OURS or last.at < service.scaling_set.at:
        return ""
    return last.manager
