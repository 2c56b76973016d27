"""The operator with kopf, its store, queue and writer, against an API server on loopback; the core is a tiny one."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

import httpx
import pytest
from lightkube.config.kubeconfig import KubeConfig
from lightkube.config.models import Cluster, User

from inferplane_operator.app import Operator
from inferplane_operator.cluster.fake_server import FakeApiServer
from inferplane_operator.cluster.kinds import BUILT_IN, DECODE_POOL, DEPLOYMENT, EVENT, LEASE, OURS, POD, SERVICE
from inferplane_operator.cluster.picture import observe
from inferplane_operator.cluster.stored import ObjectId
from inferplane_operator.cluster.testing import FakeCluster, TinyCore
from inferplane_operator.settings import OperatorSettings
from inferplane_runtime.lifecycle import StopSignal

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
SETTINGS = OperatorSettings(
    listen_health="127.0.0.1:0", listen_metrics="127.0.0.1:0", lease_namespace="system", retry_period=0.1
)


class QuietStop(StopSignal):
    """Leaves the test process's own signal handlers alone."""

    def install(self) -> None: ...


class Running:
    def __init__(self, operator: Operator, stop: StopSignal, task: "asyncio.Task[int]") -> None:
        self.operator, self.stop, self.task = operator, stop, task

    async def end(self) -> int:
        self.stop.arrive()
        return await self.task


@asynccontextmanager
async def running(url: str, settings: OperatorSettings = SETTINGS) -> AsyncGenerator[Running]:
    config = KubeConfig.from_one(cluster=Cluster(server=url), user=User(token="t"), namespace="default").get()  # noqa: S106
    assert config is not None
    operator, stop = Operator(settings, config, core=TinyCore(), identity="one"), QuietStop()
    task = asyncio.create_task(operator.run(stop))
    try:
        yield Running(operator, stop, task)
    finally:
        stop.arrive() if not stop.is_set else None
        with suppress(asyncio.CancelledError):
            await task


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - what is waited for happens in a server, not in an event
            await asyncio.sleep(0.02)


async def quiet(cluster: FakeCluster, lease: str, renewals: int = 8) -> None:
    """Wait until a Lease was renewed so many times in a row with no other write between."""
    async with asyncio.timeout(60):
        while True:
            cluster.calls.clear()
            await until(lambda: len(cluster.writes()) >= renewals)
            if {call.path for call in cluster.writes()} == {lease}:
                return


def service(name: str, **decode: Any) -> dict[str, Any]:
    return {
        "apiVersion": SERVICE.api_version,
        "kind": SERVICE.kind,
        "metadata": {"namespace": "ns", "name": name},
        "spec": {"model": {"name": f"model-{name}"}, "decode": decode},
    }


def settled(cluster: FakeCluster, *names: str) -> bool:
    found = [cluster.get(DEPLOYMENT, "ns", f"{name}-decode-r1") for name in names]
    services = [cluster.get(SERVICE, "ns", name) or {} for name in names]
    return all(found) and all(one.get("status", {}).get("url") for one in services)


async def test_a_service_becomes_objects_and_goes_with_them(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    cluster = FakeCluster()
    cluster.add(service("early", replicas=3))
    async with FakeApiServer(cluster).serving() as url, running(url) as it:
        await until(lambda: settled(cluster, "early"))
        cluster.add(service("late"))
        await until(lambda: settled(cluster, "late"))
        pool = cluster.get(DECODE_POOL, "ns", "early-decode")
        assert pool is not None
        assert pool["spec"]["replicas"] == 3

        cluster.edit(DECODE_POOL, "ns", "early-decode", {"spec": {"replicas": 5}})
        await until(lambda: (cluster.get(DEPLOYMENT, "ns", "early-decode-r1") or {})["spec"]["replicas"] == 5)

        cluster.remove(SERVICE, "ns", "early")
        await until(lambda: it.operator.store.get(ObjectId("InferenceService", "ns", "early")) is None)
        await asyncio.sleep(0.3)  # whoever would make it again has had the time
        assert [one["metadata"]["name"] for one in cluster.of(DEPLOYMENT)] == ["late-decode-r1"]
        assert await it.end() == 0

    assert [one["metadata"].get("finalizers") for one in cluster.objects.values()] == [None] * len(cluster.objects)
    assert not any("kopf" in key for one in cluster.of(SERVICE) for key in one["metadata"].get("annotations", {}))
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
    assert cluster.of(EVENT) == []


async def test_an_idle_operator_writes_nothing_but_its_lease() -> None:
    cluster = FakeCluster()
    for number in range(20):
        cluster.add(service(f"s{number}", replicas=0))
    async with FakeApiServer(cluster).serving() as url:
        for _ in range(2):  # the second one begins with what the first one left
            async with running(url) as it:
                await until(lambda: it.operator.health.leading)
                await until(lambda: settled(cluster, *(f"s{number}" for number in range(20))))
                await quiet(cluster, LEASE.path("system", "inferplane-operator"))


async def test_what_went_while_no_watch_ran_is_found_gone() -> None:
    cluster = FakeCluster()
    for name in ("kept", "gone"):
        cluster.add(service(name))
    server = FakeApiServer(cluster)
    async with server.serving() as url, running(url, replace(SETTINGS, audit_period=1.0)) as it:
        await until(lambda: settled(cluster, "kept", "gone"))
        server.refuse = True
        server.cut()
        cluster.listeners.clear()  # nobody hears of it
        cluster.remove(SERVICE, "ns", "gone")
        server.forget()
        server.listen()
        server.refuse = False
        await until(lambda: it.operator.store.get(ObjectId("InferenceService", "ns", "gone")) is None)
        cluster.edit(SERVICE, "ns", "kept", {"spec": {"model": {"name": "renamed"}}})
        await until(lambda: (cluster.get(SERVICE, "ns", "kept") or {})["status"]["url"] == "renamed")


async def test_it_waits_for_its_kinds_and_says_so_on_ready() -> None:
    cluster = FakeCluster(kinds=(*BUILT_IN, EVENT, LEASE))
    async with FakeApiServer(cluster).serving() as url, running(url) as it, httpx.AsyncClient() as client:
        await until(lambda: it.operator.ports != (0, 0))
        health = f"http://127.0.0.1:{it.operator.ports[0]}"
        assert (await client.get(f"{health}/health")).status_code == 200
        assert (await client.get(f"{health}/ready")).status_code == 503

        cluster.kinds = (*OURS, *cluster.kinds)
        await until(lambda: it.operator.health.leading)
        assert (await client.get(f"{health}/ready")).json() == {"leading": True}
        page = (await client.get(f"http://127.0.0.1:{it.operator.ports[1]}/metrics")).text
        assert "inferplane_operator_leading 1.0" in page


async def test_losing_the_lease_ends_the_process_and_stops_its_writes() -> None:
    cluster = FakeCluster()
    async with FakeApiServer(cluster).serving() as url, running(url) as it:
        await until(lambda: it.operator.health.leading)
        cluster.edit(LEASE, "system", "inferplane-operator", {"spec": {"holderIdentity": "thief", "renewTime": "x"}})

        assert await it.task == 1
        cluster.calls.clear()
        cluster.add(service("unseen"))
        await asyncio.sleep(0.3)
        assert cluster.writes() == []


async def test_an_operator_that_was_cut_off_for_long_goes_on_in_the_same_process() -> None:
    """Nobody else took the Lease: what was edited meanwhile is carried out without a new process."""
    cluster = FakeCluster()
    cluster.add(service("kept"))
    server, brief = FakeApiServer(cluster), replace(SETTINGS, renew_deadline=1.0, lease_duration=2.0)
    async with server.serving() as url, running(url, brief) as it:
        await until(lambda: settled(cluster, "kept"))
        server.refuse = True
        server.cut()
        await until(lambda: not it.operator.health.leading)
        cluster.edit(SERVICE, "ns", "kept", {"spec": {"model": {"name": "renamed"}}})
        server.refuse = False

        await until(lambda: (cluster.get(SERVICE, "ns", "kept") or {})["status"]["url"] == "renamed")
        await until(lambda: it.operator.health.leading)
        assert await it.end() == 0


async def test_pods_do_not_join_by_label(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    cluster = FakeCluster()
    cluster.add(service("s"))
    labels = {"inferplane.dev/service": "s", "inferplane.dev/pool": "s-decode"}
    cluster.add(
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "ns", "name": "forged", "labels": labels}}
    )
    async with FakeApiServer(cluster).serving() as url, running(url) as it:
        await until(lambda: settled(cluster, "s"))
        stored = it.operator.store.get(ObjectId("InferenceService", "ns", "s"))
        assert stored is not None
        assert observe(it.operator.store, stored, now="").pods == []
    assert len(cluster.of(POD)) == 1
