"""A KVStore whose tiers others run, or the engine itself: what its Pods have, and what they do without."""

import json
from typing import Any

import pytest

from inferplane_api.v1alpha1 import InferenceService, KVStore
from inferplane_api.v1alpha1.manifests import parse_resource
from inferplane_engine.verification import HOST_CACHE, LMCACHE, MOONCAKE
from inferplane_operator.render import RenderError, RenderOptions, local_options, render_service
from inferplane_operator.render.unrun import unrun

DRAM = {"name": "memory", "medium": "dram", "capacity": "64Gi"}
SSD = {"name": "disk", "medium": "ssd", "capacity": "1Ti", "path": "/var/lib/kv"}
POOL = {"name": "pool", "medium": "mooncake", "address": "rdma://master:50051", "capacity": "32Gi"}
SERVER = {"name": "cache", "medium": "lmcache", "address": "lmcache.kv:5555"}
REDIS = {"name": "far", "medium": "redis", "address": "redis:6379"}


def parsed(kind: str, name: str, spec: dict[str, Any]) -> Any:
    header = {"apiVersion": "inferplane.dev/v1alpha1", "kind": kind, "metadata": {"name": name, "namespace": "ns"}}
    return parse_resource({**header, "spec": spec})


def service(engine: str = "vllm", **more: Any) -> InferenceService:
    model = {"name": "org/m", "source": {"path": "/models/m"}}
    spec = {"model": model, "engine": {"type": engine, **more}, "decode": {}, "kvStore": {"name": "cache"}}
    made = parsed("InferenceService", "demo", spec)
    assert isinstance(made, InferenceService)
    return made


def store(*tiers: dict[str, Any]) -> KVStore:
    made = parsed("KVStore", "cache", {"tiers": list(tiers), "integritySecretRef": "kv-key"})
    assert isinstance(made, KVStore)
    return made


def pod(wanted: InferenceService, *tiers: dict[str, Any]) -> dict[str, Any]:
    template: dict[str, Any] = render_service(wanted, store=store(*tiers)).pools[0].pod_template
    return template


def engine_of(template: dict[str, Any]) -> dict[str, Any]:
    engines: list[dict[str, Any]] = template["spec"]["containers"]
    (engine,) = engines
    return engine


def names(entries: list[dict[str, Any]]) -> set[str]:
    return {entry["name"] for entry in entries}


def test_a_store_that_others_run_needs_nothing_beside_the_engine() -> None:
    template = pod(service(), SERVER)
    (agent,) = template["spec"]["initContainers"]

    assert "--kv-store" not in agent["args"]
    assert not names(template["spec"]["volumes"]) & {"kv-arena", "kv-secret", "mooncake"}
    assert "LMCacheMPConnector" in "".join(engine_of(template)["args"])


def test_our_tiers_stay_beside_it() -> None:
    template = pod(service(), DRAM, SERVER)

    assert names(template["spec"]["initContainers"]) == {"agent", "kv-store", "kv-connector"}
    assert "MultiConnector" in "".join(engine_of(template)["args"])


def test_the_file_of_mooncakes_client_is_the_pods_annotation() -> None:
    template = pod(service(), POOL)
    engine = engine_of(template)
    (volume,) = (each for each in template["spec"]["volumes"] if each["name"] == "mooncake")
    (item,) = volume["downwardAPI"]["items"]
    (mount,) = (each for each in engine["volumeMounts"] if each["name"] == "mooncake")
    told = json.loads(template["metadata"]["annotations"]["inferplane.dev/mooncake"])

    assert item["fieldRef"]["fieldPath"] == "metadata.annotations['inferplane.dev/mooncake']"
    assert {"name": "MOONCAKE_CONFIG_PATH", "value": f"{mount['mountPath']}/{item['path']}"} in engine["env"]
    assert (told["master_server_address"], told["protocol"], told["mode"]) == ("master:50051", "rdma", "embedded")


def test_a_file_of_the_users_own_is_used_instead_also_on_one_machine() -> None:
    own = service(env={"MOONCAKE_CONFIG_PATH": "/mine"})
    here = render_service(own, store=store(POOL), options=local_options(engine_python="py")).pools[0].pod_template

    assert "inferplane.dev/mooncake" not in pod(own, POOL)["metadata"]["annotations"]
    assert {"name": "MOONCAKE_CONFIG_PATH", "value": "/mine"} in engine_of(here)["env"]


def test_sglang_has_its_memory_and_disk_in_the_engine_itself() -> None:
    template = pod(service("sglang"), DRAM, SSD)
    engine = engine_of(template)
    (volume,) = (each for each in template["spec"]["volumes"] if each["name"] == "kv-ssd")
    (mount,) = (each for each in engine["volumeMounts"] if each["name"] == "kv-ssd")

    assert names(template["spec"]["initContainers"]) == {"agent"}
    assert volume["hostPath"] == {"path": "/var/lib/kv", "type": "DirectoryOrCreate"}
    assert {"name": "SGLANG_HICACHE_FILE_BACKEND_STORAGE_DIR", "value": mount["mountPath"]} in engine["env"]


@pytest.mark.parametrize(
    ("wanted", "tiers", "problem"),
    [
        (service(), ({**POOL, "address": "http://master:1"},), "address of tier pool"),
        (service(), ({**SERVER, "address": "tcp://lmcache"},), "address of tier cache"),
        (service(), ({**SERVER, "address": "tcp://lmcache:port"},), "address of tier cache"),
        (service(), (POOL, {**POOL, "name": "other"}), "two tiers of one medium"),
        (service("sglang"), (DRAM, REDIS), "no storage of redis"),
        (service("sglang"), (POOL,), "give the KVStore a dram tier"),
        (service("sglang"), (DRAM, SERVER), "no storage of lmcache"),
    ],
)
def test_what_cannot_be_run_is_refused_with_the_fix(
    wanted: InferenceService, tiers: tuple[dict[str, Any], ...], problem: str
) -> None:
    with pytest.raises(RenderError, match=problem):
        pod(wanted, *tiers)


def test_a_machine_without_pods_has_no_file_for_mooncake() -> None:
    with pytest.raises(RenderError, match=r"engine\.env\.MOONCAKE_CONFIG_PATH"):
        render_service(service(), store=store(POOL), options=local_options(engine_python="py"))


def test_a_status_says_that_nobody_has_run_these() -> None:
    accelerators = RenderOptions().accelerators
    found = unrun(service(), accelerators, adapters=False, store=store(POOL, SERVER))
    in_sglang = unrun(service("sglang"), accelerators, adapters=False, store=store(DRAM, SSD))

    assert {MOONCAKE, LMCACHE} <= set(found)
    assert HOST_CACHE in in_sglang
    assert not {MOONCAKE, LMCACHE, HOST_CACHE} & set(unrun(service(), accelerators, adapters=False, store=store(DRAM)))
