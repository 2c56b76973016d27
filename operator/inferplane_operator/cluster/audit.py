"""Compares the store with what there is: the net under the watches.

Problem.  A watch that had to start anew lists what is there and says nothing of what went in between; one that hangs
says nothing at all; and nobody says when a first listing is complete, an empty one least of all.
Idea.  From time to time the metadata of all objects is listed and compared by uid.  What the store has and the cluster
has not, is removed; what the cluster has and the store has not, twice, means that a watch is stuck.  The store is warm
when a first comparison finds nothing missing.
Trade-off.  A few reads every five minutes, and soon after the API server was away.
Invariant.  Only an object that was in the store before the listing began is removed by it.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from inferplane_operator.cluster.kinds import Kind
from inferplane_operator.cluster.objects import Objects
from inferplane_operator.cluster.store import Store
from inferplane_operator.cluster.stored import Stored


@dataclass(frozen=True, slots=True)
class Finding:
    """What one comparison of one kind showed."""

    kind: Kind
    missing: frozenset[str]
    """uids that the store has not."""
    stale: tuple[Stored, ...]
    """Objects that are no more."""


@dataclass(slots=True)
class Audit:
    objects: Objects
    store: Store
    namespaces: tuple[str, ...]
    """None: the whole cluster."""
    on_gone: Callable[[Stored], None]
    """Called for what is no more, while it is still in the store."""
    _missed: dict[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])

    async def compare(self, kind: Kind) -> Finding:
        """List one kind and drop from the store what is no more."""
        before = self.store.uids(kind.kind)
        listed: set[str] = set()
        for namespace in self.namespaces or ("",):
            async for item in self.objects.metadata(kind, namespace):
                listed.add(str(item["metadata"].get("uid", "")))
        stale = tuple(self._drop(uid) for uid in before.keys() - listed)
        missing = frozenset(listed - self.store.uids(kind.kind).keys())
        return Finding(kind, missing, tuple(gone for gone in stale if gone is not None))

    async def all(self, kinds: Iterable[Kind]) -> list[Finding]:
        return [await self.compare(kind) for kind in kinds]

    def stuck(self, findings: Iterable[Finding]) -> list[str]:
        """Name the kinds that miss the same object as the time before: their watches are not working."""
        found: list[str] = []
        for finding in findings:
            if finding.missing & self._missed.get(finding.kind.kind, frozenset()):
                found.append(finding.kind.kind)
            self._missed[finding.kind.kind] = finding.missing
        return found

    def _drop(self, uid: str) -> Stored | None:
        gone = self.store.by_uid(uid)
        if gone is None:
            return None
        self.on_gone(gone)
        return self.store.remove(gone.id, uid)
