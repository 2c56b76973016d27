"""One suite for every implementation of discovery."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Protocol

import pytest

from inferplane_api.catalogue import Catalogue, CatalogueService
from inferplane_router.discovery import kinds
from inferplane_router.discovery.api import Discovery
from inferplane_router.discovery.fake_cluster import FakeApi, FakeCluster
from inferplane_router.discovery.file import CatalogueFile
from inferplane_router.discovery.kubernetes import ClusterCatalogue
from inferplane_router.discovery.kubernetes import Heard as ClusterHeard
from inferplane_router.discovery.testing import FakeDiscovery, service
from inferplane_runtime.kube.errors import UnreachableError


class Heard:
    """What a router would have been told."""

    def __init__(self) -> None:
        self.names: list[str] = []
        """The served name of each catalogue's service."""
        self.failures = 0

    def apply(self, catalogue: Catalogue) -> None:
        self.names.append(catalogue.services[0].served_names[0])

    def failed(self) -> None:
        self.failures += 1


class Played(Protocol):
    """A source with the world behind it."""

    @property
    def discovery(self) -> Discovery: ...

    @property
    def heard(self) -> Heard: ...

    def publish(self, catalogue: Catalogue) -> None: ...

    def spoil(self) -> None: ...


class PlayedFile:
    def __init__(self, folder: Path) -> None:
        self.heard = Heard()
        self.path = folder / "catalogue.json"
        self.discovery = CatalogueFile(
            self.path, apply=self.heard.apply, failed=self.heard.failed, sleep=lambda _: asyncio.sleep(0)
        )

    def publish(self, catalogue: Catalogue) -> None:
        self._replace(catalogue.model_dump_json(by_alias=True))

    def spoil(self) -> None:
        self._replace('{"generation": "many"}')

    def _replace(self, text: str) -> None:
        part = self.path.with_suffix(".part")
        part.write_text(text)
        part.replace(self.path)


class PlayedFake:
    def __init__(self, _folder: Path) -> None:
        self.heard = Heard()
        self.discovery = FakeDiscovery(apply=self.heard.apply, failed=self.heard.failed)

    def publish(self, catalogue: Catalogue) -> None:
        self.discovery.publish(catalogue)

    def spoil(self) -> None:
        self.discovery.spoil()


class PlayedCluster:
    """A cluster whose API server answers once something was published."""

    def __init__(self, _folder: Path) -> None:
        self.heard = Heard()
        self.cluster = FakeCluster()
        self.api = FakeApi(self.cluster)
        self.api.open.clear()
        self.discovery = ClusterCatalogue(
            self.api,
            ClusterHeard(self.heard.apply, self.heard.failed, lambda _: None),
            rng=Random(1),
            sleep=lambda _: asyncio.sleep(0),
        )

    def publish(self, catalogue: Catalogue) -> None:
        for each in catalogue.services:
            self.cluster.put(service(each.name, *each.served_names, mode="aggregated"))
        self.api.open.set()
        self.cluster.stir()

    def spoil(self) -> None:
        self.api.fail_next(kinds.INFERENCE_SERVICE, UnreachableError("connection refused"))
        self.api.interrupt()


@pytest.fixture(params=[PlayedFile, PlayedFake, PlayedCluster], ids=["file", "fake", "cluster"], name="source")
def every_source(request: pytest.FixtureRequest, tmp_path: Path) -> Played:
    make: Callable[[Path], Played] = request.param
    return make(tmp_path)


def catalogue(generation: int) -> Catalogue:
    return Catalogue(generation=generation, services=(CatalogueService(name="s", served_names=(f"m{generation}",)),))


def play(source: Played, scenario: Callable[[], Awaitable[None]]) -> None:
    async def run() -> None:
        watching = asyncio.create_task(source.discovery.watch(), name="watch")
        await scenario()
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)

    asyncio.run(run())


async def turns() -> None:
    for _ in range(100):
        await asyncio.sleep(0)


def test_each_catalogue_is_applied_once_and_in_order(source: Played) -> None:
    async def scenario() -> None:
        for generation in (1, 2, 3):
            source.publish(catalogue(generation))
            await turns()

    play(source, scenario)

    assert source.heard.names == ["m1", "m2", "m3"]
    assert source.heard.failures == 0


def test_what_cannot_be_read_is_reported_and_changes_nothing(source: Played) -> None:
    async def scenario() -> None:
        source.publish(catalogue(1))
        await turns()
        source.spoil()
        await turns()

    play(source, scenario)

    assert source.heard.names == ["m1"]
    assert source.heard.failures == 1


def test_a_good_catalogue_after_a_bad_one_is_applied(source: Played) -> None:
    async def scenario() -> None:
        source.spoil()
        await turns()
        source.publish(catalogue(2))
        await turns()

    play(source, scenario)

    assert source.heard.names == ["m2"]
    assert source.heard.failures == 1


def test_a_file_that_is_not_there_yet_is_no_failure_and_one_that_goes_is(tmp_path: Path) -> None:
    source = PlayedFile(tmp_path)

    async def scenario() -> None:
        await turns()
        assert source.heard.failures == 0
        source.publish(catalogue(1))
        await turns()
        source.path.unlink()
        await turns()
        assert (source.heard.names, source.heard.failures) == (["m1"], 1)
        source.publish(catalogue(2))
        await turns()

    play(source, scenario)

    assert source.heard.names == ["m1", "m2"]
