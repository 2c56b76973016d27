"""What to start and what to drain, given what is wanted and what there is: a pure function.

The runner is level-based: it keeps no list of steps to finish, it compares.  Each call looks at the whole picture and
names the next safe actions; when they have happened (or failed) the picture differs and the next call goes on from
there.  So a runner that dies half way through a rollout needs no memory of it.

Rollout: a worker of the new revision comes up *before* one of the old is drained, as long as there is room for both
(GPUs, memory); without room one old worker makes way first.  No old worker is drained to make way for a new one that is
not ready while there is room, so capacity never drops below what was asked for.  Prefill and decode workers talk to
peers of their own revision only: no pool gives up its old workers before every pool has a new one.

Invariant: names are unique among all workers there are, the draining ones included.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

SURGE = 1
"""Workers that a pool may have above its replica count while it is rolled out."""


@dataclass(frozen=True, slots=True)
class PoolGoal:
    """What a pool should be; `room` says that one more worker than now would fit on this machine."""

    name: str
    replicas: int
    revision: str
    room: bool = True


@dataclass(frozen=True, slots=True)
class WorkerFact:
    """A worker there is."""

    name: str
    pool: str
    revision: str
    ready: bool = False
    draining: bool = False


@dataclass(frozen=True, slots=True)
class StartWorker:
    name: str
    pool: str


@dataclass(frozen=True, slots=True)
class DrainWorker:
    name: str
    reason: str


Action = StartWorker | DrainWorker


def plan(goals: Sequence[PoolGoal], facts: Sequence[WorkerFact]) -> tuple[Action, ...]:
    """Return the next actions; none when everything is as wanted or something must happen first."""
    known = {goal.name for goal in goals}
    actions: list[Action] = [
        DrainWorker(fact.name, "its pool is gone") for fact in facts if fact.pool not in known and not fact.draining
    ]
    taken = {fact.name for fact in facts}
    paired = all(_arrived(goal, facts) for goal in goals)
    for goal in goals:
        mine = [fact for fact in facts if fact.pool == goal.name]
        staying = [fact for fact in mine if not fact.draining]
        actions += _plan_pool(goal, staying, taken, leaving=len(mine) > len(staying), paired=paired)
    return tuple(actions)


def _arrived(goal: PoolGoal, facts: Sequence[WorkerFact]) -> bool:
    """Whether the pool's newest revision serves, or cannot before something makes way."""
    if not goal.replicas or not goal.room:
        return True
    return any(fact.pool == goal.name and fact.revision == goal.revision and fact.ready for fact in facts)


def _plan_pool(
    goal: PoolGoal, workers: Sequence[WorkerFact], taken: set[str], *, leaving: bool, paired: bool
) -> list[Action]:
    new = [worker for worker in workers if worker.revision == goal.revision]
    old = [worker for worker in workers if worker.revision != goal.revision]
    if len(new) > goal.replicas:
        surplus = sorted(new, key=_worth)[: len(new) - goal.replicas]
        return [DrainWorker(worker.name, "scaled down") for worker in surplus]
    useless = [worker for worker in old if not worker.ready]
    if useless:  # serves nobody: nothing is lost by replacing it at once
        return [DrainWorker(worker.name, "replaced by a newer revision") for worker in useless]
    missing = goal.replicas - len(old) - len(new)
    if missing > 0:
        # Without room the place of the one that leaves is waited for.
        return [] if leaving and not goal.room else _start(goal, missing, taken)
    return _roll(goal, new, old, taken, paired=paired) if old else []


def _roll(
    goal: PoolGoal, new: Sequence[WorkerFact], old: Sequence[WorkerFact], taken: set[str], *, paired: bool
) -> list[Action]:
    """Replace ready workers of an older revision, a step at a time."""
    surplus = len(old) - goal.replicas
    if surplus > 0:
        return [DrainWorker(worker.name, "scaled down") for worker in sorted(old, key=_worth)[:surplus]]
    ready_new = sum(worker.ready for worker in new)
    excess = len(old) - (goal.replicas - ready_new)
    if excess > 0:
        if not paired:
            return []
        going = sorted(old, key=_worth)[:excess]
        return [DrainWorker(worker.name, "replaced by a newer revision") for worker in going]
    if len(new) > ready_new:
        return []  # one at a time: the newcomer first
    if goal.room:
        return _start(goal, SURGE, taken)
    first = min(old, key=_worth)
    return [DrainWorker(first.name, "makes way for a newer revision (no room for both)")]


def _worth(worker: WorkerFact) -> tuple[bool, int]:
    """Sort key, cheapest to lose first: what is not ready, then the highest number."""
    return (worker.ready, -_number(worker.name))


def _number(name: str) -> int:
    tail = name.rpartition("-")[2]
    return int(tail) if tail.isdecimal() else 0


def _start(goal: PoolGoal, count: int, taken: set[str]) -> list[Action]:
    names = free_names(goal.name, count, taken)
    taken.update(names)
    return [StartWorker(name, goal.name) for name in names]


def free_names(pool: str, count: int, taken: Collection[str]) -> list[str]:
    """Return the `count` lowest-numbered names of the pool that nobody has."""
    names: list[str] = []
    number = 0
    while len(names) < count:
        name = f"{pool}-{number}"
        if name not in taken:
            names.append(name)
        number += 1
    return names


def settled(goals: Iterable[PoolGoal], facts: Sequence[WorkerFact]) -> bool:
    """Whether exactly the wanted workers are there, all ready, none of an older revision."""
    wanted = {goal.name: goal for goal in goals}
    if any(
        fact.draining or not fact.ready or fact.pool not in wanted or fact.revision != wanted[fact.pool].revision
        for fact in facts
    ):
        return False
    return all(sum(fact.pool == name for fact in facts) == goal.replicas for name, goal in wanted.items())
