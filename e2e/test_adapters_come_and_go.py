"""LoRAAdapters on a real cluster: loaded on every worker through its agent, replaced and unloaded, without restarts."""

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from e2e.support.cluster import Cluster
from e2e.support.release import Release
from e2e.support.services import Service, sim_service
from e2e.support.waiting import until

ROOM = {"type": "sim", "blockSize": 16, "maxModelLen": 8192, "lora": {"maxAdapters": 3, "maxRank": 16}}


@pytest.fixture
def folder(cluster: Cluster) -> Iterator[Path]:
    """Give a folder of the node with the adapters `one` and `two`."""
    assert cluster.node  # whose folders are this machine's
    with tempfile.TemporaryDirectory(prefix="inferplane-adapters-") as made:
        root = Path(made)
        root.chmod(0o755)
        for name in ("one", "two"):
            (root / name).mkdir()
            (root / name / "adapter_config.json").write_text(json.dumps({"r": 8}))
        yield root


def adapter(folder: Path, name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "inferplane.dev/v1alpha1",
        "kind": "LoRAAdapter",
        "metadata": {"name": name},
        "spec": {"service": "lora", "source": {"path": str(folder / name)}, **spec},
    }


def ask(release: Release, model: str) -> httpx.Response:
    body = {"model": model, "prompt": "Once upon a time " * 20, "max_tokens": 8, "temperature": 0}
    return httpx.post(f"{release.url}/v1/completions", json=body, timeout=60)


def words(release: Release, model: str) -> str:
    answer = ask(release, model)
    assert answer.status_code == 200, answer.text
    text: str = answer.json()["choices"][0]["text"]
    return text


def reason(cluster: Cluster, namespace: str, name: str) -> str:
    status = cluster.get("loraadapters.inferplane.dev", name, namespace=namespace).get("status", {})
    return next((each["reason"] for each in status.get("conditions", ()) if each["type"] == "Ready"), "")


def test_adapters_are_loaded_replaced_and_unloaded_without_a_restart(
    cluster: Cluster, release: Release, namespace: str, folder: Path
) -> None:
    service = Service(cluster, namespace, "lora")
    cluster.apply(adapter(folder, "one"), namespace=namespace)  # the folder becomes a volume of the first Pods
    service.apply(sim_service("lora", engine=ROOM))
    service.wait_ready()
    cluster.wait("loraadapters.inferplane.dev/one", "condition=Ready", namespace=namespace)
    pods, base = service.uids(), words(release, "lora")

    cluster.apply(adapter(folder, "two"), namespace=namespace)
    cluster.wait("loraadapters.inferplane.dev/two", "condition=Ready", namespace=namespace)
    status = cluster.get("loraadapters.inferplane.dev", "two", namespace=namespace)["status"]
    assert (status["loadedOn"], status["wantedOn"]) == (2, 2)
    one = words(release, "one")
    assert len({base, one, words(release, "two")}) == 3

    cluster.apply(adapter(folder, "one", revision="2"), namespace=namespace)
    until(lambda: words(release, "one") not in (base, one), 60, what="the new revision's words")
    cluster.kubectl("delete", "loraadapters.inferplane.dev", "two", "--namespace", namespace)
    until(lambda: ask(release, "two").status_code == 404, 60, what="no more adapter two")

    cluster.apply(adapter(folder, "missing"), namespace=namespace)
    until(lambda: reason(cluster, namespace, "missing") == "AdapterFailed", 60, what="the engine's refusal")
    assert ask(release, "missing").status_code == 503
    assert words(release, "lora") == base
    assert service.uids() == pods
    assert service.restarts() == 0
