"""Real vLLM in Pods: prefill and decode on CPUs, KV blocks from one Pod to the other, at once and through a KV store.

The engine is the one that the tests without a cluster use: its environment, interpreter and model are mounted from
this machine, read-only, into the image that holds everything else, since no image of an engine can be had here.  Its
Python has nothing of the project's, so the store's connector has to be brought to it, as to any engine's.
"""

import asyncio
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from e2e.cluster.places import REPOSITORY
from e2e.support.cluster import Cluster
from e2e.support.namespaces import namespace_of
from e2e.support.release import Release
from e2e.support.services import Service, is_ready
from e2e.support.waiting import until
from inferplane_kvstore.resp import RedisAddress, RedisConnection
from inferplane_operator.render.names import DEFAULT_METRICS_PORT

ENGINE = REPOSITORY / ".venv-engine"
MODEL = REPOSITORY / ".cache" / "models" / "tiny-llama"
INTERPRETER = Path(sys.base_prefix)
PLUGIN = "/opt/inferplane/lib/python3.11/site-packages/inferplane_engine/vllm_cpu_plugin"
"""In the image.  Without it NIXL's progress threads spin, and two idle engines take two cores from everything else."""
PROMPT = "The quick brown fox jumps over the lazy dog. " * 20
MODEL_NAME = "real-engines"
BLOCK = 32
REDIS = REPOSITORY / ".cache" / "redis"
REDIS_PORT = 6379
STORE: dict[str, Any] = {
    "apiVersion": "inferplane.dev/v1alpha1",
    "kind": "KVStore",
    "metadata": {"name": "cache"},
    "spec": {
        "admission": {"minHits": 1},
        "tiers": [
            {"name": "memory", "medium": "dram", "capacity": "64Mi"},
            {"name": "shared", "medium": "redis", "address": f"redis:{REDIS_PORT}"},
        ],
    },
}
_MODEST: dict[str, Any] = {"requests": {"cpu": "10m"}}

pytestmark = [
    pytest.mark.timeout(900, func_only=True),
    pytest.mark.skipif(not ENGINE.exists(), reason="there is no .venv-engine; `make engine` makes it"),
]


def service(image: str) -> dict[str, Any]:
    mounted = {ENGINE, MODEL, Path("/usr")} | ({INTERPRETER} - {Path("/usr")})
    folders = {f"host-{number}": str(path) for number, path in enumerate(sorted(mounted - {MODEL}))}
    engine = {
        "name": "engine",
        "volumeMounts": [{"name": name, "mountPath": path, "readOnly": True} for name, path in folders.items()],
        "securityContext": {"runAsUser": os.getuid(), "runAsNonRoot": False},  # whose home the interpreter may be in
    }
    volumes = [{"name": name, "hostPath": {"path": path, "type": "Directory"}} for name, path in folders.items()]
    pool = {
        "replicas": 1,
        "resources": {"requests": {"cpu": "100m", "memory": "1Gi"}},
        "podTemplate": {
            "spec": {
                "containers": [engine],
                "initContainers": [{"name": "kv-store", "resources": _MODEST}],
                "volumes": volumes,
            }
        },
    }
    return {
        "apiVersion": "inferplane.dev/v1alpha1",
        "kind": "InferenceService",
        "metadata": {"name": "tiny"},
        "spec": {
            "model": {"name": "inferplane/tiny", "servedNames": [MODEL_NAME], "source": {"path": str(MODEL)}},
            "engine": {
                "type": "vllm",
                "device": "cpu",
                "image": image,
                "command": [str(ENGINE / "bin" / "python"), "-m", "vllm.entrypoints.openai.api_server"],
                "dtype": "float32",
                "blockSize": 32,
                "maxModelLen": 4096,
                "kvCacheMemory": "16Mi",
                "env": {
                    "HOME": "/tmp",  # noqa: S108 - of the container
                    "VLLM_CACHE_ROOT": "/tmp/vllm",  # noqa: S108 - as above
                    "PYTHONPATH": PLUGIN,
                    # a tiny model computes sooner than it fetches, and a busy machine answers late
                    "KV_CONNECTOR_SETTINGS": '{"always_fetch": true, "lookup_deadline_s": 20}',
                },
            },
            "mode": "disaggregated",
            "routing": {"exposeHeaders": True},
            "drainTimeout": "20s",
            "prefill": pool,
            "decode": pool,
            "kvStore": {"name": "cache"},
        },
    }


def redis(image: str) -> list[dict[str, Any]]:
    """Return a Redis: Debian's, from this machine as well."""
    folders = {"redis": str(REDIS), "libraries": "/usr"}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "redis", "labels": {"app": "redis"}},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [
                {
                    "name": "redis",
                    "image": image,
                    "command": [str(REDIS / "redis-server"), "--port", str(REDIS_PORT), "--protected-mode", "no"],
                    "args": ["--save", "", "--maxmemory", "64mb"],
                    "resources": _MODEST,
                    "volumeMounts": [
                        {"name": name, "mountPath": path, "readOnly": True} for name, path in folders.items()
                    ],
                }
            ],
            "volumes": [
                {"name": name, "hostPath": {"path": path, "type": "Directory"}} for name, path in folders.items()
            ],
        },
    }
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "redis"},
        "spec": {"selector": {"app": "redis"}, "ports": [{"port": REDIS_PORT}]},
    }
    return [pod, service]


@pytest.fixture(scope="module")
def tiny(cluster: Cluster, release: Release) -> Iterator[Service]:
    """Give a service whose engines are real and have a KV store each, with one Redis below them."""
    assert cluster.node  # the mounts are this machine's
    with namespace_of(cluster, MODEL_NAME) as namespace:
        made = Service(cluster, namespace, "tiny")
        for each in [*(redis(release.image) if REDIS.exists() else ()), STORE]:
            cluster.apply(each, namespace=namespace)
        made.apply(service(release.image))
        made.wait_ready(600)
        yield made


def test_a_prompt_is_prefilled_in_one_pod_and_answered_from_another(tiny: Service, release: Release) -> None:
    assert tiny.object["spec"]["mode"] == "disaggregated"

    first, second = asyncio.run(twice(release.url))

    assert first["choices"] == second["choices"]
    assert first["usage"]["completion_tokens"] == 16
    cached = second["usage"]["prompt_tokens_details"]["cached_tokens"]
    assert cached > second["usage"]["prompt_tokens"] * 0.8


async def twice(url: str) -> list[dict[str, Any]]:
    body = {"model": MODEL_NAME, "prompt": PROMPT, "max_tokens": 16, "temperature": 0}
    async with httpx.AsyncClient(timeout=120) as client:
        answers = [await client.post(f"{url}/v1/completions", json=body) for _ in range(2)]
    for answer in answers:
        assert answer.status_code == httpx.codes.OK, answer.text
        prefill, decode = (answer.headers[f"x-inferplane-{kind}"] for kind in ("prefill-worker", "worker"))
        assert "-prefill-" in prefill
        assert "-decode-" in decode
    return [answer.json() for answer in answers]


@pytest.mark.skipif(not REDIS.exists(), reason="there is no .cache/redis; `make redis` fetches it")
def test_what_a_decode_pod_computed_a_prefill_pod_loads_from_the_store(
    cluster: Cluster, tiny: Service, release: Release
) -> None:
    (server,) = (pod for pod in cluster.get("pods", namespace=tiny.namespace, selector="app=redis")["items"])
    assert is_ready(server)
    before = stored(server)
    asked, answered = said(release.url, PROMPT, 3 * BLOCK)
    turn = [*asked, *answered]
    until(lambda: stored(server) >= before + len(answered) // BLOCK - 1, 30, what="the answer's blocks in Redis")
    (prefill,) = tiny.ready_pods("prefill")
    loaded = bytes_loaded(prefill)

    _, goes_on = said(release.url, turn, 16)

    until(lambda: bytes_loaded(prefill) > loaded, 30, what="blocks loaded from Redis")
    _, computed = said(release.url, turn, 16, cache_salt="another")
    assert goes_on == computed


def said(url: str, prompt: str | list[int], tokens: int, **more: str) -> tuple[list[int], list[int]]:
    """Return the tokens of prompt and answer."""
    body = {"model": MODEL_NAME, "prompt": prompt, "max_tokens": tokens, "ignore_eos": True, "temperature": 0, **more}
    reply = httpx.post(f"{url}/v1/completions", json={**body, "return_token_ids": True}, timeout=120)
    assert reply.status_code == httpx.codes.OK, reply.text
    choice = reply.json()["choices"][0]
    return choice["prompt_token_ids"], choice["token_ids"]


def stored(server: dict[str, Any]) -> int:
    """Return how many blocks Redis holds."""
    connection = RedisConnection(RedisAddress(server["status"]["podIP"], REDIS_PORT), deadline_s=10.0)
    try:
        return int(str(connection.ask([b"DBSIZE"])))
    finally:
        connection.close()


def bytes_loaded(pod: dict[str, Any]) -> float:
    """Return what the store beside a Pod's engine brought up from Redis, as its agent tells."""
    page = httpx.get(f"http://{pod['status']['podIP']}:{DEFAULT_METRICS_PORT}/metrics", timeout=30).text
    name = "inferplane_kvstore_read_bytes_total{"
    return sum(float(line.rsplit(" ", 1)[1]) for line in page.splitlines() if line.startswith(name) and "redis" in line)
