"""Real vLLM in Pods: prefill and decode on CPUs, KV blocks from one Pod to the other.

The engine is the one that the tests without a cluster use: its environment, interpreter and model are mounted from
this machine, read-only, into the image that holds everything else, since no image of an engine can be had here.
"""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from e2e.cluster.places import REPOSITORY
from e2e.support.cluster import Cluster
from e2e.support.release import Release
from e2e.support.services import Service

ENGINE = REPOSITORY / ".venv-engine"
MODEL = REPOSITORY / ".cache" / "models" / "tiny-llama"
INTERPRETER = Path(sys.base_prefix)
PLUGIN = "/opt/inferplane/lib/python3.11/site-packages/inferplane_engine/vllm_cpu_plugin"
"""In the image.  Without it NIXL's progress threads spin, and two idle engines take two cores from everything else."""
PROMPT = "The quick brown fox jumps over the lazy dog. " * 20

pytestmark = pytest.mark.timeout(900, func_only=True)


def service(namespace: str, image: str) -> dict[str, Any]:
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
        "podTemplate": {"spec": {"containers": [engine], "volumes": volumes}},
    }
    return {
        "apiVersion": "inferplane.dev/v1alpha1",
        "kind": "InferenceService",
        "metadata": {"name": "tiny"},
        "spec": {
            "model": {"name": "inferplane/tiny", "servedNames": [namespace], "source": {"path": str(MODEL)}},
            "engine": {
                "type": "vllm",
                "device": "cpu",
                "image": image,
                "command": [str(ENGINE / "bin" / "python"), "-m", "vllm.entrypoints.openai.api_server"],
                "dtype": "float32",
                "blockSize": 32,
                "maxModelLen": 4096,
                "kvCacheMemory": "16Mi",
                "env": {"HOME": "/tmp", "VLLM_CACHE_ROOT": "/tmp/vllm", "PYTHONPATH": PLUGIN},  # noqa: S108 - of the container
            },
            "mode": "disaggregated",
            "routing": {"exposeHeaders": True},
            "drainTimeout": "20s",
            "prefill": pool,
            "decode": pool,
        },
    }


@pytest.mark.skipif(not ENGINE.exists(), reason="there is no .venv-engine; `make engine` makes it")
def test_a_prompt_is_prefilled_in_one_pod_and_answered_from_another(
    cluster: Cluster, release: Release, namespace: str
) -> None:
    tiny = Service(cluster, namespace, "tiny")
    assert cluster.node  # the mounts are this machine's
    tiny.apply(service(namespace, release.image))
    tiny.wait_ready(600)

    first, second = asyncio.run(twice(release.url, namespace))

    assert first["choices"] == second["choices"]
    assert first["usage"]["completion_tokens"] == 16
    cached = second["usage"]["prompt_tokens_details"]["cached_tokens"]
    assert cached > second["usage"]["prompt_tokens"] * 0.8


async def twice(url: str, model: str) -> list[dict[str, Any]]:
    body = {"model": model, "prompt": PROMPT, "max_tokens": 16, "temperature": 0}
    async with httpx.AsyncClient(timeout=120) as client:
        answers = [await client.post(f"{url}/v1/completions", json=body) for _ in range(2)]
    for answer in answers:
        assert answer.status_code == httpx.codes.OK, answer.text
        prefill, decode = (answer.headers[f"x-inferplane-{kind}"] for kind in ("prefill-worker", "worker"))
        assert "-prefill-" in prefill
        assert "-decode-" in decode
    return [answer.json() for answer in answers]
