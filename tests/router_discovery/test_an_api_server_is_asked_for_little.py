"""The real client against an API server on loopback."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest
from lightkube.config.kubeconfig import KubeConfig

from inferplane_router.discovery import kinds
from inferplane_router.discovery.fake_api_server import FakeApiServer
from inferplane_router.discovery.fake_cluster import FakeCluster, Object
from inferplane_router.discovery.testing import Plant, service
from inferplane_runtime.kube.api import CallSettings, KubeApi, read_cluster
from inferplane_runtime.kube.errors import (
    AbsentError,
    ForbiddenError,
    GoneError,
    KubeError,
    RefusedError,
    UnreachableError,
)
from inferplane_runtime.kube.kinds import WatchedKind
from inferplane_runtime.settings import SettingsError


class World:
    def __init__(self, server: FakeApiServer, api: KubeApi) -> None:
        self.server = server
        self.cluster = server.cluster
        self.api = api

    async def everything(self, kind: WatchedKind) -> list[Any]:
        page = await self.api.list_page(kind, "")
        items = list(page.items)
        while page.token:
            page = await self.api.list_page(kind, page.token)
            items += page.items
        return items


@asynccontextmanager
async def world(*, namespace: str = "", **settings: Any) -> AsyncGenerator[World]:
    server = FakeApiServer(FakeCluster())
    async with server.running() as url:
        config = KubeConfig.from_server(url).get()
        assert config is not None
        api = KubeApi(config, namespace=namespace, rng=Random(1), settings=CallSettings(**settings))
        try:
            yield World(server, api)
        finally:
            await api.close()


def play(scenario: Callable[[World], Awaitable[None]], **settings: Any) -> None:
    async def run() -> None:
        async with world(**settings) as there:
            await scenario(there)

    asyncio.run(run())


def test_lists_come_in_pages_and_pods_whole() -> None:
    async def scenario(there: World) -> None:
        plant = Plant(there.cluster)
        pods = [plant.worker(f"s{number}", f"m{number}") for number in range(5)]

        found = await there.everything(kinds.POD)

        assert sorted(pod["metadata"]["uid"] for pod in found) == sorted(pod["metadata"]["uid"] for pod in pods)
        assert all(pod["status"]["podIP"] for pod in found)
        assert [each.query["limit"] for each in there.server.asked] == ["2"] * 3
        assert {each.path for each in there.server.asked} == {"/api/v1/pods"}

    play(scenario, page=2)


@pytest.mark.parametrize("kind", [kind for kind in kinds.KINDS if kind.metadata_only], ids=lambda kind: kind.plural)
def test_of_owners_only_metadata_is_asked_for(kind: WatchedKind) -> None:
    async def scenario(there: World) -> None:
        plant = Plant(there.cluster)
        for role in ("prefill", "decode"):
            pool = plant.pool(there.cluster.put(service(role, role)), role)
            plant.replica_set(pool)
            plant.leader_set(pool)

        found: list[Object] = await there.everything(kind)

        assert found
        assert all("spec" not in each for each in found)

    play(scenario)


def test_one_namespace_is_all_that_is_asked_for_where_one_is_named() -> None:
    async def scenario(there: World) -> None:
        there.cluster.put(service("a", "m", namespace="ours"))
        there.cluster.put(service("b", "n", namespace="theirs"))

        found = await there.everything(kinds.INFERENCE_SERVICE)

        assert [each["metadata"]["name"] for each in found] == ["a"]
        path = "/apis/inferplane.dev/v1alpha1/namespaces/ours/inferenceservices"
        assert {each.path for each in there.server.asked} == {path}

    play(scenario, namespace="ours")


@pytest.mark.parametrize("piece", [0, 1, 7], ids=["whole", "bytes", "sevens"])
def test_a_watch_tells_what_happens_however_its_bytes_arrive(piece: int) -> None:
    async def scenario(there: World) -> None:
        there.server.piece = piece
        version = str(there.cluster.version)
        there.cluster.put(service("a", "m"))
        there.cluster.put(service("a", "ü" * 100))
        there.cluster.delete("InferenceService", "a")
        heard: list[str] = []
        async with aclosing(there.api.watch(kinds.INFERENCE_SERVICE, version)) as events:
            async for event in events:
                heard.append(event["type"])
                if len(heard) == 3:
                    there.server.bookmark()
                if event["type"] == "BOOKMARK":
                    break

        query = there.server.asked[-1].query

        assert heard == ["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
        assert query["allowWatchBookmarks"] == "true"
        assert 240 <= int(query["timeoutSeconds"]) <= 480

    play(scenario)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (401, ForbiddenError),
        (403, ForbiddenError),
        (404, AbsentError),
        (410, GoneError),
        (429, RefusedError),
        (500, RefusedError),
        (503, RefusedError),
    ],
)
def test_refusals_are_told_apart_and_say_what_the_server_said(status: int, kind: type[KubeError]) -> None:
    async def scenario(there: World) -> None:
        for ask in (there.api.list_page(kinds.POD, ""), anext(there.api.watch(kinds.POD, "1"))):
            there.server.refuse(status, "pods is forbidden", retry_after="7")
            with pytest.raises(kind, match=f"/api/v1/pods: {status}: pods is forbidden") as raised:
                await ask
            if type(raised.value) is RefusedError:
                assert raised.value.retry_after_s == 7.0

    play(scenario)


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"items": []}', b'{"metadata": {}, "items": []}'])
def test_an_answer_that_is_no_api_servers_is_a_failure_of_ours(body: bytes) -> None:
    async def scenario(there: World) -> None:
        there.server.refuse(200)
        there.server.refusals[0] = type(there.server.refusals[0])(200, body=body)
        with pytest.raises(UnreachableError, match="not an API server's answer"):
            await there.api.list_page(kinds.POD, "")

    play(scenario)


def test_a_connection_that_breaks_is_a_failure_and_one_that_ends_is_none() -> None:
    async def scenario(there: World) -> None:
        async def follow() -> None:
            async for _ in there.api.watch(kinds.POD, str(there.cluster.version)):
                pass

        for act in (there.server.end, there.server.cut):
            following = asyncio.create_task(follow(), name="follow")
            await there.server.watched()
            act()
            if act == there.server.end:
                await following
            else:
                with pytest.raises(UnreachableError):
                    await following

    play(scenario)


def test_a_watch_that_falls_silent_is_given_up_without_being_a_failure() -> None:
    async def scenario(there: World) -> None:
        events = [event async for event in there.api.watch(kinds.POD, str(there.cluster.version))]

        assert events == []

    play(scenario, silence_s=0.05)


def test_nobody_listening_is_a_failure() -> None:
    async def run() -> None:
        config = KubeConfig.from_server("http://127.0.0.1:1").get()
        assert config is not None
        api = KubeApi(config, namespace="", rng=Random(1))
        with pytest.raises(UnreachableError, match="ConnectError"):
            await api.list_page(kinds.POD, "")
        await api.close()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("text", "context", "problem"),
    [
        (None, "", "discovery.kubernetes.kubeconfig"),
        ("clusters: [", "", "discovery.kubernetes.kubeconfig"),
        ("clusters: []\ncontexts: []\n", "", "discovery.kubernetes.kubeconfig"),
        ("clusters: []\ncontexts: []\ncurrent-context: a\n", "b", "discovery.kubernetes.kubeconfig"),
    ],
    ids=["absent", "no YAML", "no context", "unknown context"],
)
def test_a_kubeconfig_that_cannot_be_used_names_the_field(
    tmp_path: Path, text: str | None, context: str, problem: str
) -> None:
    path = tmp_path / "kubeconfig"
    if text is not None:
        path.write_text(text)

    with pytest.raises(SettingsError) as raised:
        read_cluster(path, context, where="discovery.kubernetes")

    assert raised.value.path == problem


@pytest.mark.parametrize("kind", kinds.KINDS, ids=lambda kind: kind.plural)
def test_a_kind_of_which_there_is_none_is_an_empty_list(kind: WatchedKind) -> None:
    async def scenario(there: World) -> None:
        assert await there.everything(kind) == []

    play(scenario)
