"""Rollouts against a simulated cluster: workers start, die, wait for devices and drain as they please."""

from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from inferplane_operator.reconcile.rollout import Plan, PoolState, RevisionState, Rollout, plan
from inferplane_operator.reconcile.values import CanaryVerdict, Judgement

PREFILL, DECODE = "prefill", "decode"


@dataclass
class Worker:
    revision: str
    ready: bool = False
    placed: bool = True
    draining: bool = False


@dataclass
class Pool:
    wanted: int
    max_surge: int = 1
    max_unavailable: int = 0
    devices: int = 1
    replicas: dict[str, int] = field(default_factory=dict[str, int])
    workers: list[Worker] = field(default_factory=list[Worker])
    retiring: bool = False

    def living(self, revision: str) -> list[Worker]:
        return [worker for worker in self.workers if worker.revision == revision and not worker.draining]

    def ready(self, revision: str | None = None) -> int:
        mine = [worker for worker in self.workers if revision is None or worker.revision == revision]
        return sum(worker.ready and not worker.draining for worker in mine)

    @property
    def total(self) -> int:
        return sum(self.replicas.values())


@dataclass
class Cluster:
    """Deployments as a controller keeps them, on nodes with `room` devices (None: as many as anybody asks for)."""

    pools: dict[str, Pool]
    target: str = "a"
    stable: str = ""
    room: int | None = None
    max_devices: int | None = None
    verdict: Judgement | None = Judgement.PASS
    frozen: bool = False

    def picture(self) -> Rollout:
        return Rollout(
            pools=tuple(self._state(name, pool) for name, pool in self.pools.items()),
            target=self.target,
            stable=self.stable,
            max_devices=self.max_devices,
            canary=None if self.verdict is None else CanaryVerdict(self.target, self.verdict),
            frozen=self.frozen,
        )

    def _state(self, name: str, pool: Pool) -> PoolState:
        waiting = [worker for worker in pool.workers if not worker.placed and not worker.draining]
        return PoolState(
            name=name,
            wanted=pool.wanted,
            max_surge=pool.max_surge,
            max_unavailable=pool.max_unavailable,
            devices=pool.devices,
            revisions=tuple(
                RevisionState(revision, count, pool.ready(revision)) for revision, count in pool.replicas.items()
            ),
            pods=len(pool.workers),
            short_of_room=any(worker.revision == self.target for worker in waiting),
            retiring=pool.retiring,
        )

    def reconcile(self) -> Plan:
        done = plan(self.picture())
        for (name, revision), count in done.replicas.items():
            self._scale(self.pools[name], revision, count)
        if done.complete:
            self.stable = self.target
        return done

    def _scale(self, pool: Pool, revision: str, count: int) -> None:
        pool.replicas[revision] = count
        living = pool.living(revision)
        # As a ReplicaSet does it: those that wait first, then those that are not ready.
        for worker in sorted(living, key=lambda each: (each.placed, each.ready))[: max(0, len(living) - count)]:
            worker.draining, worker.ready = True, False
        pool.workers += [Worker(revision, placed=False) for _ in range(count - len(living))]
        self.place()

    def place(self) -> None:
        for pool in self.pools.values():
            for worker in pool.workers:
                if not worker.placed and not worker.draining and self._fits(pool.devices):
                    worker.placed = True

    def _fits(self, devices: int) -> bool:
        return self.room is None or self.used() + devices <= self.room

    def used(self) -> int:
        return sum(pool.devices * sum(worker.placed for worker in pool.workers) for pool in self.pools.values())

    def starting(self) -> list[Worker]:
        return [
            worker
            for pool in self.pools.values()
            for worker in pool.workers
            if worker.placed and not worker.ready and not worker.draining
        ]

    def end_drains(self) -> None:
        for pool in self.pools.values():
            pool.workers = [worker for worker in pool.workers if not worker.draining]
        self.place()

    def all_start(self) -> None:
        for worker in self.starting():
            worker.ready = True

    def settle(self, rounds: int = 400) -> int:
        """Let everything that can happen happen, until nothing does; return the rounds that it took."""
        for number in range(rounds):
            before = self.snapshot()
            done = self.reconcile()
            self.end_drains()
            self.all_start()
            if self.snapshot() == before and done.complete:
                return number
        return rounds

    def snapshot(self) -> list[tuple[dict[str, int], int]]:
        return [(dict(pool.replicas), pool.ready()) for pool in self.pools.values()]

    def capacity(self) -> Fraction:
        """The share of the wanted load that revisions can bear whose workers have peers in every pool."""
        pools = [pool for pool in self.pools.values() if pool.wanted]
        revisions = {revision for pool in pools for revision in pool.replicas}
        return sum(
            (min(Fraction(pool.ready(revision), pool.wanted) for pool in pools) for revision in revisions), Fraction(0)
        )


def running(prefill: int, decode: int, *, max_surge: int = 1, max_unavailable: int = 0) -> Cluster:
    cluster = Cluster(
        {name: Pool(count, max_surge, max_unavailable) for name, count in ((PREFILL, prefill), (DECODE, decode))}
    )
    cluster.settle()
    return cluster


def only(cluster: Cluster, revision: str) -> bool:
    return all(
        pool.replicas.get(revision, 0) == pool.wanted and pool.total == pool.wanted for pool in cluster.pools.values()
    )


@pytest.mark.parametrize(("prefill", "decode"), [(1, 1), (1, 4), (4, 1), (3, 4), (2, 6), (0, 3), (3, 0)])
@pytest.mark.parametrize(("surge", "unavailable"), [(1, 0), (3, 0), (0, 1), (2, 2), (0, 3)])
def test_a_rollout_ends(prefill: int, decode: int, surge: int, unavailable: int) -> None:
    cluster = running(prefill, decode, max_surge=surge, max_unavailable=unavailable)
    cluster.target = "b"

    assert cluster.settle() < 60
    assert only(cluster, "b")
    assert cluster.stable == "b"


def test_the_first_start_needs_no_canary() -> None:
    cluster = Cluster({PREFILL: Pool(2), DECODE: Pool(3)}, verdict=Judgement.WAIT)

    cluster.reconcile()

    assert {name: pool.replicas for name, pool in cluster.pools.items()} == {PREFILL: {"a": 2}, DECODE: {"a": 3}}


def test_one_new_worker_of_each_pool_waits_for_its_verdict() -> None:
    cluster = running(2, 3)
    cluster.target, cluster.verdict = "b", Judgement.WAIT
    cluster.settle(rounds=10)

    assert {name: pool.replicas for name, pool in cluster.pools.items()} == {
        PREFILL: {"a": 2, "b": 1},
        DECODE: {"a": 3, "b": 1},
    }
    assert plan(cluster.picture()).waiting == "the canary's verdict"


def test_a_verdict_on_another_revision_says_nothing() -> None:
    cluster = running(2, 2)
    cluster.target, cluster.verdict = "b", Judgement.WAIT
    cluster.settle(rounds=5)
    stale = replace(cluster.picture(), canary=CanaryVerdict("a", Judgement.PASS))

    assert plan(stale).replicas[DECODE, "a"] == 2


def test_where_nobody_judges_readiness_decides() -> None:
    cluster = running(2, 3)
    cluster.target, cluster.verdict = "b", None

    cluster.settle()

    assert only(cluster, "b")


def test_no_old_worker_goes_before_each_pool_has_a_new_one() -> None:
    cluster = running(2, 2)
    cluster.target = "b"
    cluster.reconcile()
    for worker in cluster.pools[DECODE].workers:
        worker.ready = True
    cluster.reconcile()

    assert [pool.replicas["a"] for pool in cluster.pools.values()] == [2, 2]


def test_the_only_prefill_worker_stays_until_decode_is_done() -> None:
    cluster = running(1, 3)
    cluster.target = "b"
    seen: list[tuple[int, int]] = []
    while not only(cluster, "b"):
        cluster.reconcile()
        seen.append((cluster.pools[PREFILL].replicas["a"], cluster.pools[DECODE].replicas["a"]))
        cluster.end_drains()
        cluster.all_start()

    assert [prefill for prefill, decode in seen if decode] == [1] * sum(1 for _, decode in seen if decode)


@pytest.mark.parametrize(("prefill", "decode"), [(1, 1), (2, 4), (3, 2)])
def test_without_a_spare_device_an_old_worker_makes_way(prefill: int, decode: int) -> None:
    cluster = running(prefill, decode)
    cluster.max_devices = prefill + decode
    cluster.target = "b"
    ended = False
    for _ in range(80):
        cluster.reconcile()
        assert cluster.used() <= prefill + decode
        assert all(pool.ready() >= pool.wanted - 1 for pool in cluster.pools.values())
        cluster.end_drains()
        cluster.all_start()
        ended = ended or only(cluster, "b")

    assert ended


def test_without_room_on_the_nodes_an_old_worker_makes_way() -> None:
    cluster = running(1, 2)
    cluster.room = 3
    cluster.target = "b"

    assert cluster.settle() < 60
    assert only(cluster, "b")


def test_more_than_the_budget_is_refused_and_named() -> None:
    cluster = Cluster({PREFILL: Pool(2), DECODE: Pool(6)}, max_devices=4)
    cluster.settle()

    assert [pool.total for pool in cluster.pools.values()] == [1, 3]
    assert plan(cluster.picture()).refused == {PREFILL: 1, DECODE: 3}


def test_an_over_full_service_rolls_over_within_its_budget() -> None:
    cluster = Cluster({PREFILL: Pool(2), DECODE: Pool(6)}, max_devices=4)
    cluster.settle()
    cluster.target = "b"

    assert cluster.settle() < 60
    assert [pool.replicas["b"] for pool in cluster.pools.values()] == [1, 3]


def test_turned_round_half_way_it_goes_back_without_a_canary() -> None:
    cluster = running(2, 4)
    cluster.target = "b"
    for _ in range(4):
        cluster.reconcile()
        cluster.end_drains()
        cluster.all_start()
    assert not only(cluster, "b")
    cluster.target, cluster.verdict = "a", Judgement.WAIT

    assert cluster.settle() < 60
    assert only(cluster, "a")


def test_a_revision_that_never_starts_makes_room_for_the_next() -> None:
    cluster = running(2, 2)
    cluster.target = "b"
    cluster.reconcile()
    cluster.target = "c"

    assert cluster.settle() < 60
    assert only(cluster, "c")


def test_three_revisions_at_once_end_as_one() -> None:
    cluster = running(3, 3)
    for target in ("b", "c"):
        cluster.target = target
        for _ in range(3):
            cluster.reconcile()
            cluster.end_drains()
            cluster.all_start()

    assert cluster.settle() < 60
    assert only(cluster, "c")


def test_while_the_canary_waits_more_workers_are_of_the_old_revision() -> None:
    cluster = running(1, 2)
    cluster.target, cluster.verdict = "b", Judgement.WAIT
    cluster.settle(rounds=5)
    cluster.pools[DECODE].wanted = 5
    cluster.settle(rounds=5)

    assert cluster.pools[DECODE].replicas == {"a": 4, "b": 1}


def test_after_the_canary_more_workers_are_new() -> None:
    cluster = running(2, 2)
    cluster.target = "b"
    for _ in range(2):
        cluster.reconcile()
        cluster.all_start()
    cluster.pools[DECODE].wanted = 6
    before = dict(cluster.pools[DECODE].replicas)
    cluster.reconcile()

    after = cluster.pools[DECODE].replicas
    assert after["a"] <= before["a"]
    assert after["b"] > before["b"]
    assert sum(after.values()) >= 6


def test_nothing_wanted_is_nothing_kept() -> None:
    cluster = running(2, 2)
    cluster.target = "b"
    cluster.reconcile()
    for pool in cluster.pools.values():
        pool.wanted = 0

    assert cluster.settle() < 10
    assert [pool.total for pool in cluster.pools.values()] == [0, 0]


def test_a_frozen_service_keeps_its_revisions_and_scales() -> None:
    cluster = running(2, 2)
    cluster.target = "b"
    for _ in range(3):
        cluster.reconcile()
        cluster.all_start()
    cluster.frozen = True
    before = [dict(pool.replicas) for pool in cluster.pools.values()]
    cluster.reconcile()
    assert [pool.replicas for pool in cluster.pools.values()] == before

    cluster.pools[DECODE].wanted = 6
    cluster.reconcile()

    assert cluster.pools[DECODE].total == 6


def test_a_pool_that_the_target_has_not_goes_with_the_old_revision() -> None:
    cluster = running(2, 2)
    cluster.target = "b"
    cluster.pools[PREFILL].retiring = True
    seen: list[tuple[int, int]] = []
    for _ in range(20):
        cluster.reconcile()
        seen.append((cluster.pools[PREFILL].replicas["a"], cluster.pools[DECODE].replicas["a"]))
        cluster.end_drains()
        cluster.all_start()

    assert seen[-1] == (0, 0)
    assert all(prefill for prefill, decode in seen if decode)
    assert "b" not in cluster.pools[PREFILL].replicas


REVISIONS = ["a", "b", "c"]


class Life(RuleBasedStateMachine):
    """What holds whatever happens, and in the end: the target alone."""

    cluster: Cluster

    @initialize(
        prefill=st.integers(0, 4),
        decode=st.integers(0, 5),
        surge=st.integers(0, 2),
        unavailable=st.integers(0, 2),
        devices=st.integers(0, 2),
        budget=st.one_of(st.none(), st.integers(2, 12)),
        room=st.one_of(st.none(), st.integers(4, 12)),
    )
    def begin(
        self,
        *,
        prefill: int,
        decode: int,
        surge: int,
        unavailable: int,
        devices: int,
        budget: int | None,
        room: int | None,
    ) -> None:
        unavailable = unavailable or (0 if surge else 1)
        self.cluster = Cluster(
            {
                PREFILL: Pool(prefill, surge, unavailable, devices),
                DECODE: Pool(decode, surge, unavailable, devices),
            },
            max_devices=budget,
            room=room,
        )

    @rule()
    def look(self) -> None:
        before = {name: pool.ready() for name, pool in self.cluster.pools.items()}
        picture = self.cluster.picture()
        done = self.cluster.reconcile()
        for state in picture.pools:
            pool = self.cluster.pools[state.name]
            cramped = state.max_surge == 0 or self.cluster.room is not None or self.cluster.max_devices is not None
            missing = max(1, pool.max_unavailable) if cramped else pool.max_unavailable
            wanted = state.wanted - done.refused.get(state.name, 0)
            assert pool.ready() >= min(before[state.name], wanted - missing)
            assert pool.total <= max(wanted + pool.max_surge, 0)

    @rule(revision=st.sampled_from(REVISIONS))
    def change(self, revision: str) -> None:
        self.cluster.target = revision

    @rule(name=st.sampled_from([PREFILL, DECODE]), wanted=st.integers(0, 6))
    def scale(self, name: str, wanted: int) -> None:
        self.cluster.pools[name].wanted = wanted

    @rule(verdict=st.sampled_from([None, *Judgement]))
    def judge(self, verdict: Judgement | None) -> None:
        self.cluster.verdict = verdict

    @rule(data=st.data())
    @precondition(lambda self: self.cluster.starting())
    def start_one(self, data: st.DataObject) -> None:
        data.draw(st.sampled_from(self.cluster.starting())).ready = True

    @rule(data=st.data())
    @precondition(lambda self: any(pool.workers for pool in self.cluster.pools.values()))
    def lose_one(self, data: st.DataObject) -> None:
        worker = data.draw(st.sampled_from([each for pool in self.cluster.pools.values() for each in pool.workers]))
        worker.ready = False

    @rule()
    def end_drains(self) -> None:
        self.cluster.end_drains()

    @rule(frozen=st.booleans())
    def freeze(self, frozen: bool) -> None:  # noqa: FBT001 - drawn by hypothesis
        self.cluster.frozen = frozen

    @invariant()
    def devices_stay_within_the_budget(self) -> None:
        if hasattr(self, "cluster") and self.cluster.max_devices is not None:
            held = sum(pool.devices * len(pool.workers) for pool in self.cluster.pools.values())
            assert held <= max(self.cluster.max_devices, 0)

    def teardown(self) -> None:
        if not hasattr(self, "cluster"):
            return
        cluster = self.cluster
        cluster.frozen, cluster.verdict, cluster.room = False, Judgement.PASS, None
        assert cluster.settle() < 200
        refused = plan(cluster.picture()).refused
        for name, pool in cluster.pools.items():
            assert pool.replicas.get(cluster.target, 0) == pool.wanted - refused.get(name, 0) == pool.total


TestLife = pytest.mark.slow(Life.TestCase)
TestLife.settings = settings(
    max_examples=80,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    phases=(Phase.reuse, Phase.generate),
)


@pytest.mark.slow
@pytest.mark.parametrize("surge", [1, 2])
@pytest.mark.parametrize("prefill", [1, 2, 3, 5])
@pytest.mark.parametrize("decode", [1, 2, 4, 6])
def test_with_surge_the_load_is_borne_by_paired_workers_at_every_moment(surge: int, prefill: int, decode: int) -> None:
    cluster = running(prefill, decode, max_surge=surge)
    cluster.target = "b"
    replicas: list[list[tuple[int, int]]] = []
    for _ in range(60):
        cluster.reconcile()
        assert cluster.capacity() >= 1
        replicas.append([(pool.replicas["a"], pool.replicas["b"]) for pool in cluster.pools.values()])
        cluster.end_drains()
        if starting := cluster.starting():
            starting[0].ready = True

    assert only(cluster, "b")
    for before, after in pairwise(replicas):
        for (old, new), (older, newer) in zip(before, after, strict=True):
            assert older <= old
            assert newer >= new
