"""A whole router that watches an API server: it finds a worker, answers from it, and outlives the API server."""

import asyncio
import json
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
import uvloop

from inferplane_router.app import RouterApp, running_router
from inferplane_router.config import Discovery, KubernetesDiscovery, Listen, RouterConfig
from inferplane_router.core.values import Health
from inferplane_router.discovery.fake_api_server import FakeApiServer
from inferplane_router.discovery.fake_cluster import FakeCluster, Object
from inferplane_router.discovery.testing import Plant, service
from inferplane_runtime.http.api import Headers, Request
from inferplane_runtime.http.client import UpstreamPool
from inferplane_runtime.http.testing import CollectingSink
from inferplane_workers.agent.config import Role
from inferplane_workers.testing import MODEL, Worker, until, worker

pytestmark = pytest.mark.slow
QUIET = Listen(http="127.0.0.1:0", grpc="127.0.0.1:0", metrics="127.0.0.1:0")
POD = "s-decode-r1-5d9c-a"


def kubeconfig(folder: Path, url: str) -> Path:
    path = folder / "kubeconfig"
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    document = {"clusters": [{"name": "c", "cluster": {"server": url}}], "contexts": [context], "current-context": "c"}
    path.write_text(json.dumps(document | {"users": [{"name": "u", "user": {"token": "t"}}]}))
    return path


def put_pod(plant: Plant, served: Worker) -> Object:
    """Put a service and the Pod of a worker that runs on this machine."""
    pool = plant.pool(plant.cluster.put(service("s", MODEL, mode="aggregated")))
    ports = [
        {"name": "http", "containerPort": served.listening.http},
        {"name": "stream", "containerPort": served.listening.stream},
    ]
    pod = plant.pod(plant.replica_set(pool), "a", "127.0.0.1")
    return plant.cluster.put({**pod, "spec": {"initContainers": [{"name": "agent", "ports": ports}]}})


async def ask(client: UpstreamPool, port: int, path: str, body: Any = None) -> tuple[int, Any]:
    sink = CollectingSink()
    method, raw = (b"GET", b"") if body is None else (b"POST", orjson.dumps(body))
    request = Request(method, path.encode(), headers=Headers(((b"content-type", b"application/json"),)), body=raw)
    client.send(f"127.0.0.1:{port}", request, sink, silence_s=20)
    await sink.wait()
    assert sink.head is not None
    return sink.head.status, orjson.loads(sink.body)


@asynccontextmanager
async def router_of(folder: Path, url: str) -> AsyncGenerator[tuple[RouterApp, UpstreamPool]]:
    async with AsyncExitStack() as stack:
        config = RouterConfig(
            Discovery(kubernetes=KubernetesDiscovery(kubeconfig=kubeconfig(folder, url))), folder / "cache", QUIET
        )
        app = await stack.enter_async_context(running_router(config))
        client = UpstreamPool()
        stack.push_async_callback(client.close)
        yield app, client


CHAT = {"model": MODEL, "messages": [{"role": "user", "content": "hello"}], "max_tokens": 4}


def test_it_answers_from_the_worker_also_while_the_api_server_is_gone(tmp_path: Path) -> None:
    async def main() -> None:
        cluster = FakeCluster()
        server = FakeApiServer(cluster)
        async with worker(tmp_path, Role.DECODE, POD) as served, AsyncExitStack() as stack:
            put_pod(Plant(cluster), served)
            api = AsyncExitStack()
            url = await api.enter_async_context(server.running())
            app, client = await stack.enter_async_context(router_of(tmp_path, url))
            await until(lambda: [each.health for each in app.core.statistics().workers] == [Health.READY])

            newest = app.catalogue_generation()
            assert newest > 0
            assert await ask(client, app.http.port, "/ready") == (200, {"status": "ready", "catalogue": newest})
            assert (await ask(client, app.http.port, "/v1/chat/completions", CHAT))[0] == 200

            await api.aclose()
            assert (await ask(client, app.http.port, "/v1/chat/completions", CHAT))[0] == 200
            assert [each.worker_id for each in app.core.statistics().workers] == [f"default/{POD}"]

    uvloop.run(main())


def test_it_is_not_ready_before_the_cluster_is_known_and_loses_a_pod_that_is_gone(tmp_path: Path) -> None:
    async def main() -> None:
        cluster = FakeCluster()
        server = FakeApiServer(cluster)
        async with worker(tmp_path, Role.DECODE, POD) as served, server.running() as url:
            put_pod(Plant(cluster), served)
            server.refuse(503, "starting", times=11)  # each kind at least once
            async with router_of(tmp_path, url) as (app, client):
                status, body = await ask(client, app.http.port, "/ready")
                assert (status, body["error"]["message"]) == (503, "no catalogue has been read yet")
                await until(lambda: [each.health for each in app.core.statistics().workers] == [Health.READY])

                cluster.delete("Pod", POD)
                await until(lambda: not app.core.statistics().workers)

    uvloop.run(main())


def test_a_process_that_cannot_find_its_cluster_says_which_field_is_wrong(tmp_path: Path) -> None:
    async def main() -> tuple[int | None, str]:
        config = tmp_path / "router.yaml"
        discovery = {"kubernetes": {"kubeconfig": str(tmp_path / "absent")}}
        listen = dict.fromkeys(("http", "grpc", "metrics"), "127.0.0.1:0")
        config.write_text(json.dumps({"discovery": discovery, "cacheDir": str(tmp_path / "cache"), "listen": listen}))
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "inferplane_router", "--config", str(config), stderr=asyncio.subprocess.PIPE
        )
        _, said = await process.communicate()
        return process.returncode, said.decode()

    code, said = asyncio.run(main())

    assert code == 2
    assert "discovery.kubernetes.kubeconfig" in said


def test_after_sigterm_it_is_unready_at_once_and_serves_on_for_a_while(tmp_path: Path) -> None:
    """A lame duck: endpoints take a moment to hear of a Pod's end, and whoever connects meanwhile is answered."""

    async def main() -> tuple[list[int], int | None]:
        report, config = tmp_path / "listen.json", tmp_path / "router.yaml"
        (tmp_path / "catalogue.json").write_text("{}")
        listen = dict.fromkeys(("http", "grpc", "metrics"), "127.0.0.1:0") | {"report": str(report)}
        document = {"discovery": {"file": str(tmp_path / "catalogue.json")}, "cacheDir": str(tmp_path / "cache")}
        config.write_text(json.dumps(document | {"listen": listen, "lameDuckS": 2.0, "drainTimeoutS": 5}))
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "inferplane_router", "--config", str(config), stderr=asyncio.subprocess.DEVNULL
        )
        client = UpstreamPool()
        try:
            await until(report.exists, deadline_s=40)
            port = int(orjson.loads(report.read_bytes())["http"].rpartition(":")[2])
            seen = [(await ask(client, port, "/ready"))[0]]
            process.send_signal(signal.SIGTERM)
            while seen[-1] == 200:
                seen.append((await ask(client, port, "/ready"))[0])
            seen.append((await ask(client, port, "/health"))[0])
            code = await process.wait()
        finally:
            await client.close()
            if process.returncode is None:
                process.kill()
                await process.wait()
        return seen, code

    seen, code = asyncio.run(main())

    assert seen[0] == 200
    assert seen[-2:] == [503, 200]
    assert code == 0
