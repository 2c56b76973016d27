"""The whole of discovery in a cluster: when a catalogue is handed over, and what happens while nothing can be read."""

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random

import pytest
from lightkube.config.kubeconfig import KubeConfig

from inferplane_api.catalogue import Catalogue
from inferplane_router.discovery import kinds, reading
from inferplane_router.discovery.fake_api_server import FakeApiServer
from inferplane_router.discovery.fake_cluster import FakeApi, FakeCluster
from inferplane_router.discovery.kubernetes import ClusterCatalogue, Heard
from inferplane_router.discovery.testing import Plant, service
from inferplane_runtime.kube.api import KubeApi
from inferplane_runtime.kube.errors import ForbiddenError, GoneError, UnreachableError
from inferplane_runtime.kube.kinds import WatchedKind
from inferplane_runtime.kube.watching import ClusterApi, Patience


class Follower:
    """A router's view of a cluster: every catalogue that it was handed."""

    def __init__(self, api: ClusterApi, *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self.catalogues: list[Catalogue] = []
        self.failures = 0
        self._news = asyncio.Event()
        heard = Heard(self._apply, self._failed, lambda _: None)
        patience = Patience(first_s=0.001, longest_s=0.01)
        self.discovery = ClusterCatalogue(api, heard, rng=Random(1), patience=patience, gather_s=0.001, sleep=sleep)

    @property
    def workers(self) -> list[str]:
        return [worker.worker_id for worker in self.catalogues[-1].workers] if self.catalogues else []

    async def sees(self, *workers: str) -> None:
        """Return once exactly these are known."""
        await self.until(lambda: self.workers == list(workers))

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._news.clear()
            await self._news.wait()

    def _apply(self, catalogue: Catalogue) -> None:
        self.catalogues.append(catalogue)
        self._news.set()

    def _failed(self) -> None:
        self.failures += 1
        self._news.set()


class World:
    """A cluster in memory and one router's view of it; waiting takes no time."""

    def __init__(self, *, page: int = 2) -> None:
        self.cluster = FakeCluster()
        self.plant = Plant(self.cluster)
        self.api = FakeApi(self.cluster, page=page)
        self.router = Follower(self.api, sleep=lambda _: asyncio.sleep(0))

    def play(self, scenario: Callable[[], Awaitable[None]]) -> None:
        async def run() -> None:
            watching = asyncio.create_task(self.router.discovery.watch(), name="watch")
            await turns()
            await scenario()
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

        asyncio.run(run())


async def turns() -> None:
    for _ in range(100):
        await asyncio.sleep(0)


@pytest.mark.parametrize("kind", kinds.KINDS, ids=lambda kind: kind.plural)
def test_nothing_is_handed_over_before_every_kind_was_listed(kind: WatchedKind) -> None:
    world = World()
    world.plant.worker("s", "m")
    world.api.fail_next(kind, UnreachableError("not yet"), times=1000)

    async def scenario() -> None:
        assert world.router.catalogues == []
        world.api.recover()
        await turns()

    world.play(scenario)

    assert world.router.workers == ["default/s-decode-r1-5d9c-a"]


@pytest.mark.parametrize("kind", [kinds.STATEFUL_SET, kinds.LEADER_WORKER_SET], ids=lambda kind: kind.plural)
def test_a_cluster_without_workers_that_span_nodes_is_whole(kind: WatchedKind) -> None:
    world = World()
    world.plant.worker("s", "m")
    world.api.fail_next(kind, ForbiddenError("you may not"), times=1000)

    async def scenario() -> None:
        await turns()

    world.play(scenario)

    assert world.router.workers == ["default/s-decode-r1-5d9c-a"]


def test_an_empty_cluster_is_a_catalogue_too() -> None:
    world = World()

    async def scenario() -> None:
        await turns()

    world.play(scenario)

    assert world.router.catalogues == [Catalogue(generation=1)]


def test_generations_rise_and_what_changes_nothing_is_not_handed_over() -> None:
    world = World()
    pod = world.plant.worker("s", "m")

    async def scenario() -> None:
        world.cluster.put({**pod, "status": {**pod["status"], "conditions": [{"type": "Ready"}]}})
        await turns()
        world.cluster.put({**pod, "status": {**pod["status"], "podIP": "10.0.0.2"}})
        await turns()
        world.cluster.delete("Pod", pod["metadata"]["name"])
        await turns()

    world.play(scenario)
    found = world.router.catalogues

    assert [catalogue.generation for catalogue in found] == [1, 2, 3]
    assert [[worker.http_address for worker in catalogue.workers] for catalogue in found] == [
        ["10.0.0.1:8100"],
        ["10.0.0.2:8100"],
        [],
    ]


def test_a_burst_is_one_catalogue() -> None:
    world = World()

    async def scenario() -> None:
        for number in range(200):
            world.plant.worker(f"s{number}", f"m{number}", f"10.0.0.{number}")
        for _ in range(20):
            await turns()

    world.play(scenario)

    assert len(world.router.workers) == 200
    assert len(world.router.catalogues) <= 10  # 1,000 objects


def test_while_nothing_can_be_read_the_last_catalogue_stays_and_then_it_is_followed_again() -> None:
    world = World()
    first = world.plant.worker("s", "m")

    async def scenario() -> None:
        for kind in kinds.KINDS:
            world.api.fail_next(kind, UnreachableError("connection refused"), times=1000)
        world.api.interrupt(UnreachableError("reset"))
        await turns()
        world.cluster.delete("Pod", first["metadata"]["name"])
        await turns()
        assert len(world.router.catalogues) == 1
        assert world.router.failures > 10
        world.cluster.compact()  # while away, the history went on
        world.api.recover()
        await turns()

    world.play(scenario)

    assert len(world.router.catalogues) == 2
    assert world.router.workers == []


@pytest.mark.slow
def test_a_change_costs_what_changed_and_no_validation() -> None:
    """With a thousand Pods, one Pod's change makes one worker anew; a status that is written validates nothing."""
    world = World(page=1000)
    owner = world.plant.replica_set(world.plant.pool(world.cluster.put(service("s", "m", mode="aggregated"))))
    pods = [world.plant.pod(owner, str(number), f"10.0.{number // 256}.{number % 256}") for number in range(1000)]
    validated: list[object] = []

    async def scenario() -> None:
        for _ in range(5):
            await turns()
        before = {worker.worker_id: worker for worker in world.router.catalogues[-1].workers}
        world.cluster.put({**pods[7], "status": {**pods[7]["status"], "podIP": "10.9.9.9"}})
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(reading, "read_stored", validated.append)
            world.cluster.put({**world.cluster.objects("InferenceService")[0], "status": {"url": "http://x"}})
            await turns()
        after = world.router.catalogues[-1].workers
        assert len(after) == 1000
        assert sum(before[worker.worker_id] is not worker for worker in after) == 1

    world.play(scenario)

    assert validated == []
    assert len(world.router.catalogues) == 2


def test_a_list_that_finds_nothing_new_makes_nothing_anew() -> None:
    world = World()
    for number in range(5):
        world.plant.worker(f"s{number}", f"m{number}")

    async def scenario() -> None:
        before = {worker.worker_id: worker for worker in world.router.catalogues[-1].workers}
        world.plant.worker("t", "n")
        world.cluster.compact()
        world.api.interrupt(GoneError("too old"))
        await turns()
        after = world.router.catalogues[-1].workers
        assert len(after) == 6
        assert sum(before.get(worker.worker_id) is worker for worker in after) == 5

    world.play(scenario)


def test_one_object_that_breaks_the_reading_leaves_the_last_catalogue(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.plant.worker("s", "m")

    async def scenario() -> None:
        def broken(*_: object) -> None:
            raise ValueError("planted")

        with monkeypatch.context() as patch:
            patch.setattr("inferplane_router.discovery.kubernetes.compose", broken)
            world.plant.worker("t", "n")
            await turns()
            assert world.router.failures > 0
        world.plant.worker("u", "o")
        await turns()

    world.play(scenario)

    assert len(world.router.workers) == 3


@pytest.mark.slow
def test_two_routers_of_one_cluster_agree_through_a_restart_of_its_api_server() -> None:
    """Over sockets: one router sees everything from the start, the other comes late, the API server restarts."""

    async def run() -> None:
        cluster = FakeCluster()
        plant, server = Plant(cluster), FakeApiServer(cluster, piece=100)
        early_pod = plant.worker("s", "m")
        async with server.running() as url:
            port = int(url.rpartition(":")[2])
            apis = [_api(url), _api(url)]
            early, late = (Follower(api) for api in apis)
            tasks = [asyncio.create_task(early.discovery.watch(), name="early")]
            await early.until(lambda: len(early.workers) == 1)
            plant.worker("t", "n", "10.0.0.2")
            await early.until(lambda: len(early.workers) == 2)
            tasks.append(asyncio.create_task(late.discovery.watch(), name="late"))
            await late.until(lambda: len(late.workers) == 2)
            server.cut()
        await early.until(lambda: early.failures > 0)
        held = early.catalogues[-1]
        plant.worker("u", "o", "10.0.0.3")
        cluster.delete("Pod", early_pod["metadata"]["name"])
        cluster.compact()
        async with server.running(port):
            for router in (early, late):
                await router.sees("default/t-decode-r1-5d9c-a", "default/u-decode-r1-5d9c-a")

            assert len(held.workers) == 2  # while nobody answered
            assert early.catalogues[-1].model_copy(update={"generation": 0}) == late.catalogues[-1].model_copy(
                update={"generation": 0}
            )
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        for api in apis:
            await api.close()

    asyncio.run(run())


def _api(url: str) -> KubeApi:
    config = KubeConfig.from_server(url).get()
    assert config is not None
    return KubeApi(config, namespace="", rng=Random(2))


@pytest.mark.slow
def test_only_what_is_asked_for_is_imported(repository: Path) -> None:
    """A router that reads a file starts without a cluster's client and without the custom resources' types."""
    found = subprocess.run(
        [sys.executable, "-c", "import inferplane_router.app, sys; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
        cwd=repository,
    )
    loaded = set(found.stdout.split())

    assert "inferplane_router.discovery.sources" in loaded
    assert not loaded & {"lightkube", "httpx2", "httpx", "inferplane_api.v1alpha1.inference_service"}
