"""Nodes on which workers keep failing, told apart from revisions that fail everywhere.

Problem.  A broken accelerator or a full disk makes every Pod of one node fail, and a scheduler finds the node free
again each time.
Idea.  A node is suspect when a worker fails there, none serves there, and one of the same pool and revision serves
elsewhere: what differs is the node.
Trade-off.  On a cluster of one node nothing can be told apart, and nothing is.
Invariant.  A revision that fails on every node makes no node suspect.
"""

from collections.abc import Iterable

from inferplane_operator.reconcile.clock import seconds_between
from inferplane_operator.reconcile.workers import Worker

_MEMORY_S = 3600.0


def failing_nodes(workers: Iterable[Worker], now: str) -> tuple[str, ...]:
    """Return the names of suspect nodes, sorted."""
    every = [worker for worker in workers if worker.node]
    suspects: set[str] = set()
    for kin in {(worker.pool, worker.revision) for worker in every}:
        group = [worker for worker in every if (worker.pool, worker.revision) == kin]
        serving = {worker.node for worker in group if worker.ready}
        failed = {worker.node for worker in group if worker.failing or _ended_lately(worker, now)}
        suspects |= failed - serving if serving else set()
    return tuple(sorted(suspects))


def _ended_lately(worker: Worker, now: str) -> bool:
    return worker.ended and not worker.going and seconds_between(worker.created, now) < _MEMORY_S
