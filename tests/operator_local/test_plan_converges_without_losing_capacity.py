"""The diff core: tables for single steps, a simulation to the fixed point for the whole."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inferplane_operator.local.plan import (
    Action,
    DrainWorker,
    PoolGoal,
    StartWorker,
    WorkerFact,
    free_names,
    plan,
    settled,
)


def worker(name: str, revision: str = "a", *, ready: bool = True, draining: bool = False) -> WorkerFact:
    return WorkerFact(name, name.rpartition("-")[0], revision, ready=ready, draining=draining)


CASES: dict[str, tuple[list[PoolGoal], list[WorkerFact], list[Action]]] = {
    "an empty machine gets every worker at once": (
        [PoolGoal("p", 1, "a"), PoolGoal("d", 2, "a")],
        [],
        [StartWorker("p-0", "p"), StartWorker("d-0", "d"), StartWorker("d-1", "d")],
    ),
    "what is wanted and there stays": ([PoolGoal("d", 1, "a")], [worker("d-0")], []),
    "a starting worker counts": ([PoolGoal("d", 1, "a")], [worker("d-0", ready=False)], []),
    "scale up takes the lowest free number": (
        [PoolGoal("d", 3, "a")],
        [worker("d-0"), worker("d-2")],
        [StartWorker("d-1", "d")],
    ),
    "a name that still drains is not given again": (
        [PoolGoal("d", 1, "a")],
        [worker("d-0", draining=True)],
        [StartWorker("d-1", "d")],
    ),
    "scale down drops the highest number": (
        [PoolGoal("d", 1, "a")],
        [worker("d-0"), worker("d-1"), worker("d-10")],
        [DrainWorker("d-10", "scaled down"), DrainWorker("d-1", "scaled down")],
    ),
    "scale down drops what is not ready first": (
        [PoolGoal("d", 1, "a")],
        [worker("d-0", ready=False), worker("d-1")],
        [DrainWorker("d-0", "scaled down")],
    ),
    "a pool that is gone is drained": ([], [worker("d-0")], [DrainWorker("d-0", "its pool is gone")]),
    "a new revision comes up before the old goes": (
        [PoolGoal("d", 1, "b")],
        [worker("d-0")],
        [StartWorker("d-1", "d")],
    ),
    "the old stays until the new is ready": (
        [PoolGoal("d", 1, "b")],
        [worker("d-0"), worker("d-1", "b", ready=False)],
        [],
    ),
    "the old goes once the new is ready": (
        [PoolGoal("d", 1, "b")],
        [worker("d-0"), worker("d-1", "b")],
        [DrainWorker("d-0", "replaced by a newer revision")],
    ),
    "the old stays until every pool has a new one": (
        [PoolGoal("p", 1, "b"), PoolGoal("d", 1, "b")],
        [worker("p-0"), worker("p-1", "b"), worker("d-0"), worker("d-1", "b", ready=False)],
        [],
    ),
    "what scaling down leaves over is not kept for a newer revision": (
        [PoolGoal("d", 1, "b")],
        [worker("d-0"), worker("d-1")],
        [DrainWorker("d-1", "scaled down")],
    ),
    "without room the old goes first": (
        [PoolGoal("d", 1, "b", room=False)],
        [worker("d-0")],
        [DrainWorker("d-0", "makes way for a newer revision (no room for both)")],
    ),
    "without room the place of the one that leaves is waited for": (
        [PoolGoal("d", 1, "b", room=False)],
        [worker("d-0", draining=True)],
        [],
    ),
    "an old worker that serves nobody is replaced at once": (
        [PoolGoal("d", 1, "b")],
        [worker("d-0", ready=False)],
        [DrainWorker("d-0", "replaced by a newer revision")],
    ),
}


@pytest.mark.parametrize(("goals", "facts", "expected"), CASES.values(), ids=CASES)
def test_the_next_actions_follow_from_the_picture(
    goals: list[PoolGoal], facts: list[WorkerFact], expected: list[Action]
) -> None:
    assert list(plan(goals, facts)) == expected


def apply(facts: Sequence[WorkerFact], actions: Sequence[Action], revisions: dict[str, str]) -> list[WorkerFact]:
    draining = {action.name for action in actions if isinstance(action, DrainWorker)}
    kept = [
        WorkerFact(
            fact.name, fact.pool, fact.revision, ready=fact.ready, draining=fact.draining or fact.name in draining
        )
        for fact in facts
    ]
    started = [
        WorkerFact(action.name, action.pool, revisions[action.pool])
        for action in actions
        if isinstance(action, StartWorker)
    ]
    return kept + started


def happen(facts: Sequence[WorkerFact], which: Sequence[bool]) -> list[WorkerFact]:
    """Let some of the pending things happen: a starting worker becomes ready, a draining one is gone."""
    result: list[WorkerFact] = []
    for index, fact in enumerate(facts):
        now = which[index % len(which)] if which else True
        if fact.draining and now:
            continue
        result.append(WorkerFact(fact.name, fact.pool, fact.revision, ready=fact.ready or now, draining=fact.draining))
    return result


pools = st.sampled_from(["prefill", "decode"])
goals_strategy = st.lists(
    st.builds(PoolGoal, pools, st.integers(0, 4), st.sampled_from("abc"), st.booleans()),
    max_size=2,
    unique_by=lambda goal: goal.name,
)
facts_strategy = st.lists(
    st.tuples(pools, st.integers(0, 6), st.sampled_from("abc"), st.booleans(), st.booleans()),
    max_size=10,
    unique_by=lambda row: (row[0], row[1]),
).map(lambda rows: [WorkerFact(f"{p}-{n}", p, r, ready=ready, draining=d) for p, n, r, ready, d in rows])


@settings(deadline=None)
@given(goals_strategy, facts_strategy, st.lists(st.lists(st.booleans(), max_size=7), max_size=20))
def test_any_start_settles_in_bounded_steps_and_serves_meanwhile(
    goals: list[PoolGoal], facts: list[WorkerFact], luck: list[list[bool]]
) -> None:
    """Names stay unique, a pool with room never loses ready capacity to a rollout, and the end is what was wanted."""
    revisions = {goal.name: goal.revision for goal in goals}
    for step in range(80):
        actions = plan(goals, facts)
        for goal in goals:
            _check_capacity(goal, facts, actions)
        facts = apply(facts, actions, revisions)
        assert len({fact.name for fact in facts}) == len(facts)
        if not actions and settled(goals, facts):
            return
        facts = happen(facts, luck[step] if step < len(luck) else [])
    raise AssertionError((goals, facts))


def _check_capacity(goal: PoolGoal, facts: Sequence[WorkerFact], actions: Sequence[Action]) -> None:
    mine = {fact.name: fact for fact in facts if fact.pool == goal.name and not fact.draining}
    drained = {action.name for action in actions if isinstance(action, DrainWorker)} & mine.keys()
    ready_before = sum(fact.ready for fact in mine.values())
    ready_after = sum(fact.ready for name, fact in mine.items() if name not in drained)
    if goal.room:
        assert ready_after >= min(goal.replicas, ready_before)
    else:
        assert ready_after >= min(goal.replicas, ready_before) - 1


@given(st.sets(st.integers(0, 8)), st.integers(0, 6))
def test_free_names_are_the_lowest_that_nobody_has(taken: set[int], count: int) -> None:
    names = free_names("d", count, {f"d-{number}" for number in taken})

    assert names == [f"d-{n}" for n in range(20) if n not in taken][:count]
