"""One kind is followed through everything that ends watches."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest

from inferplane_router.discovery import kinds, reading
from inferplane_router.discovery.fake_cluster import FakeApi, FakeCluster
from inferplane_router.discovery.testing import manifest
from inferplane_runtime.kube.errors import (
    AbsentError,
    ForbiddenError,
    GoneError,
    KubeError,
    RefusedError,
    UnreachableError,
)
from inferplane_runtime.kube.kinds import WatchedKind
from inferplane_runtime.kube.table import Table
from inferplane_runtime.kube.watching import KindWatch, Patience

OWN = {"inferplane.dev/component": "worker", "inferplane.dev/pool": "p"}


class World:
    """A watch of one kind in a cluster, whose pauses take no time and are noted."""

    def __init__(self, kind: WatchedKind = kinds.POD) -> None:
        self.cluster = FakeCluster()
        self.api = FakeApi(self.cluster)
        self.failures = 0
        self.pauses: list[float] = []
        self.changes = 0
        self.table: Table[Any] = Table(lambda raw, _: reading.read_owned(kind.kind, raw), changed=self._changed)
        self._watch = KindWatch(
            kind, self.table, self.api, failed=self._failed, sleep=self._sleep, rng=Random(1), patience=Patience()
        )

    @property
    def names(self) -> list[str]:
        return sorted(record.key.name for record in self.table.rows.values())

    @property
    def lists(self) -> int:
        return sum(verb == "list" for verb, _ in self.api.calls)

    def pod(self, name: str, **rest: Any) -> None:
        self.cluster.put(manifest("v1", "Pod", name, labels=OWN, **rest))

    def play(self, scenario: Callable[[], Awaitable[None]]) -> None:
        async def run() -> None:
            watching = asyncio.create_task(self._watch.run(), name="watch")
            await turns()
            await scenario()
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

        asyncio.run(run())

    def _changed(self) -> None:
        self.changes += 1

    def _failed(self) -> None:
        self.failures += 1

    async def _sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        await asyncio.sleep(0)


async def turns() -> None:
    for _ in range(100):
        await asyncio.sleep(0)


def test_a_list_in_pages_is_whole_and_what_comes_later_is_seen() -> None:
    world = World()
    for number in range(5):
        world.pod(f"p{number}")

    async def scenario() -> None:
        assert world.names == ["p0", "p1", "p2", "p3", "p4"]
        world.pod("p5")
        world.cluster.delete("Pod", "p1")
        await turns()

    world.play(scenario)

    assert world.names == ["p0", "p2", "p3", "p4", "p5"]
    assert world.lists == 3  # pages of the one list


def test_a_change_that_is_none_for_us_is_no_news() -> None:
    world = World()
    world.pod("p")

    async def scenario() -> None:
        before = world.changes
        world.pod("p", status={"phase": "Running", "podIP": "10.0.0.1"})
        await turns()
        assert world.changes == before

    world.play(scenario)


def test_an_object_that_loses_the_label_is_gone() -> None:
    world = World()
    world.pod("p")

    async def scenario() -> None:
        world.cluster.put(manifest("v1", "Pod", "p"))
        await turns()

    world.play(scenario)

    assert world.names == []


@pytest.mark.parametrize("error", [None, UnreachableError("reset"), RefusedError("etcd leader changed")])
def test_a_watch_that_ends_goes_on_where_it_was(error: KubeError | None) -> None:
    world = World()
    world.pod("p")

    async def scenario() -> None:
        world.pod("q")
        await turns()
        world.api.interrupt(error)
        world.pod("r")
        await turns()

    world.play(scenario)

    assert world.names == ["p", "q", "r"]
    assert world.lists == 1
    assert world.failures == (0 if error is None else 1)


def test_a_version_that_is_gone_costs_one_list_and_no_row_meanwhile() -> None:
    world = World()
    world.pod("p")
    seen: list[list[str]] = []

    async def scenario() -> None:
        world.pod("q")
        world.cluster.delete("Pod", "p")
        world.cluster.compact()
        world.api.interrupt(GoneError("too old"))
        for _ in range(60):
            await asyncio.sleep(0)
            seen.append(world.names)

    world.play(scenario)

    assert world.names == ["q"]
    assert [] not in seen
    assert world.failures == 0


def test_a_gone_that_arrives_as_an_event_is_understood_too() -> None:
    world = World()
    world.pod("p")

    async def scenario() -> None:
        world.api.say(kinds.POD, {"type": "ERROR", "object": {"code": 410, "message": "too old"}})
        await turns()
        world.pod("q")
        await turns()

    world.play(scenario)

    assert world.names == ["p", "q"]
    assert (world.lists, world.failures) == (2, 0)


def test_bookmarks_spare_a_new_list_after_a_quiet_time() -> None:
    world = World()
    world.pod("p")

    async def scenario() -> None:
        world.cluster.version += 50  # other kinds
        world.api.bookmark()
        await turns()
        world.cluster.compact()
        world.api.interrupt()
        await turns()
        world.pod("q")
        await turns()

    world.play(scenario)

    assert world.names == ["p", "q"]
    assert world.lists == 1


def test_without_a_bookmark_the_same_needs_one() -> None:
    world = World()
    world.pod("p")

    async def scenario() -> None:
        world.cluster.version += 50
        world.cluster.compact()
        world.api.interrupt()
        await turns()

    world.play(scenario)

    assert world.names == ["p"]
    assert world.lists == 2


def test_failures_wait_longer_and_longer_up_to_a_limit_and_never_in_step() -> None:
    world = World()
    world.api.fail_next(kinds.POD, UnreachableError("refused"), times=12)

    async def scenario() -> None:
        world.pod("p")
        await turns()

    world.play(scenario)
    ceilings = [min(10.0, 0.2 * 2**number) for number in range(12)]

    assert world.names == ["p"]
    assert world.failures == 12
    assert all(ceiling / 2 <= pause <= ceiling for pause, ceiling in zip(world.pauses, ceilings, strict=False))
    assert len({pause / ceiling for pause, ceiling in zip(world.pauses, ceilings, strict=False)}) == 12


def test_what_an_api_server_asks_for_is_waited() -> None:
    world = World()
    world.api.fail_next(kinds.POD, RefusedError("too many requests", retry_after_s=42.0))

    async def scenario() -> None:
        await turns()

    world.play(scenario)

    assert world.pauses[0] == 42.0


@pytest.mark.parametrize("error", [AbsentError("no such kind"), ForbiddenError("may not list")])
def test_an_optional_kind_may_be_missing(error: KubeError) -> None:
    world = World(kinds.LEADER_WORKER_SET)
    world.api.fail_next(kinds.LEADER_WORKER_SET, error)

    async def scenario() -> None:
        await turns()

    world.play(scenario)

    assert world.table.listed
    assert world.failures == 0
    assert 30.0 <= world.pauses[0] <= 60.0


def test_an_optional_kind_that_was_there_is_not_given_up_for_a_refusal() -> None:
    world = World(kinds.LEADER_WORKER_SET)
    world.cluster.put(manifest("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "w", labels=OWN))

    async def scenario() -> None:
        assert world.names == ["w"]
        world.api.fail_next(kinds.LEADER_WORKER_SET, ForbiddenError("not yet"))
        world.api.interrupt()
        await turns()

    world.play(scenario)

    assert world.names == ["w"]
    assert world.failures == 1


def test_a_kind_of_ours_that_is_missing_is_a_failure() -> None:
    world = World(kinds.DECODE_POOL)
    world.api.fail_next(kinds.DECODE_POOL, AbsentError("no such kind"))

    async def scenario() -> None:
        assert world.failures == 1

    world.play(scenario)

    assert world.table.listed  # the next attempt found it


def test_an_object_that_is_none_ends_neither_the_watch_nor_the_router() -> None:
    world = World()
    world.pod("p")

    async def scenario() -> None:
        world.api.say(kinds.POD, {"type": "ADDED", "object": {"metadata": None}})
        await turns()
        world.pod("q")
        await turns()

    world.play(scenario)

    assert world.names == ["p", "q"]
    assert world.failures == 1
