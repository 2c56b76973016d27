"""A KVStore that a service names reaches its engines: connector, memory, secret, configuration."""

import json
from typing import Any

import pytest

from inferplane_api.v1alpha1 import InferenceService, KVStore
from inferplane_api.v1alpha1.kv_store import KVStoreStatus
from inferplane_api.v1alpha1.manifests import parse_resource
from inferplane_kvstore.config import parse
from inferplane_operator.render import RenderError, local_options, render_service

MADE = "cache-integrity-1234"
TIERS = [
    {"name": "memory", "medium": "dram", "capacity": "1Gi"},
    {"name": "disk", "medium": "ssd", "capacity": "8Gi", "path": "/var/lib/kv"},
    {"name": "far", "medium": "redis", "address": "redis:6379", "secretRef": "redis-login"},
]


def parsed(kind: str, name: str, spec: dict[str, Any]) -> Any:
    header = {"apiVersion": "inferplane.dev/v1alpha1", "kind": kind, "metadata": {"name": name, "namespace": "ns"}}
    return parse_resource({**header, "spec": spec})


def service(**spec: Any) -> InferenceService:
    defaults: dict[str, Any] = {
        "model": {"name": "org/m", "source": {"path": "/models/m"}},
        "engine": {"type": "vllm"},
        "decode": {},
        "kvStore": {"name": "cache"},
    }
    made = parsed("InferenceService", "demo", {**defaults, **spec})
    assert isinstance(made, InferenceService)
    return made


def store(**spec: Any) -> KVStore:
    made = parsed("KVStore", "cache", {"tiers": TIERS, "integritySecretRef": "kv-key", **spec})
    assert isinstance(made, KVStore)
    return made


def pod(wanted: InferenceService, named: KVStore | None) -> dict[str, Any]:
    template: dict[str, Any] = render_service(wanted, store=named).pools[0].pod_template["spec"]
    return template


def container(spec: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(c for c in [*spec["initContainers"], *spec["containers"]] if c["name"] == name)
    return found


def test_the_store_starts_before_the_engine_and_outlives_its_restarts() -> None:
    spec = pod(service(), store())
    sidecar, bringer = container(spec, "kv-store"), container(spec, "kv-connector")

    assert sidecar["restartPolicy"] == "Always"
    assert "restartPolicy" not in bringer
    assert [c["name"] for c in spec["initContainers"]] == ["agent", "kv-store", "kv-connector"]


def test_the_engine_finds_connector_socket_and_secret() -> None:
    engine = container(pod(service(engine={"type": "vllm", "env": {"PYTHONPATH": "/mine"}}), store()), "engine")
    environment = {entry["name"]: entry.get("value") for entry in engine["env"]}
    mounts = {mount["name"]: mount["mountPath"] for mount in engine["volumeMounts"]}

    assert environment["PYTHONPATH"] == "$(INFERPLANE_KV_PATH):/mine"
    assert environment["INFERPLANE_KV_PATH"] == mounts["kv-connector"]
    assert environment["INFERPLANE_KV_SECRET"] == f"{mounts['kv-secret']}/hmac"
    config = json.loads(engine["args"][engine["args"].index("--kv-transfer-config") + 1])
    assert config["kv_connector_extra_config"]["socket"] == "$(INFERPLANE_KV_SOCKET)"


def test_the_store_understands_what_it_is_told(tmp_path: Any) -> None:
    quotas = [{"tenant": "acme", "capacity": "1Gi"}]
    told = json.loads(container(pod(service(), store(quotas=quotas, ttl="1h")), "kv-store")["args"][1])
    secret = tmp_path / "hmac"
    secret.write_text("0123456789abcdef")
    config = parse({**told, "secretFile": str(secret)})

    assert config.dram.capacity == 1 << 30
    assert config.ssd is not None
    assert config.ssd.capacity == 8 << 30
    assert config.redis is not None
    assert (config.redis.host, config.ttl_s, config.min_hits) == ("redis", 3600.0, 2)
    assert list(config.quotas.values()) == [1 << 30]
    assert str(config.socket) == "/run/inferplane/kv.sock"


def test_the_login_of_redis_comes_from_its_secret_and_not_in_plain() -> None:
    sidecar = container(pod(service(), store()), "kv-store")

    assert {entry["valueFrom"]["secretKeyRef"]["name"] for entry in sidecar["env"]} == {"redis-login"}


def test_the_memory_belongs_to_the_store() -> None:
    spec = pod(service(), store())
    arena = next(volume for volume in spec["volumes"] if volume["name"] == "kv-arena")

    assert arena["emptyDir"]["medium"] == "Memory"
    assert "kv-arena" not in {mount["name"] for mount in container(spec, "engine")["volumeMounts"]}
    assert container(spec, "kv-store")["resources"]["limits"] == {"memory": "1280Mi"}


def test_another_store_is_another_revision_and_no_store_the_one_before() -> None:
    plain = render_service(service()).revision
    first = render_service(service(), store=store()).revision
    second = render_service(service(), store=store(ttl="1h")).revision

    assert len({plain, first, second}) == 3


def test_engines_that_cannot_use_it_are_left_as_they_are() -> None:
    simulated = service(engine={"type": "sim"}, model={"name": "m"})

    assert render_service(simulated, store=store()) == render_service(simulated)


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"integritySecretRef": None}, "no Secret yet"),
        ({"tiers": TIERS[1:]}, "no dram tier"),
        ({"tiers": [TIERS[0], {**TIERS[0], "name": "x"}]}, "two tiers of one medium"),
    ],
)
def test_what_cannot_be_run_is_refused_with_the_fix(spec: dict[str, Any], problem: str) -> None:
    with pytest.raises(RenderError, match=problem):
        render_service(service(), store=store(**spec))


def test_the_secret_that_the_operator_made_is_mounted_and_part_of_the_revision() -> None:
    named = store(integritySecretRef=None)
    made = [named.model_copy(update={"status": KVStoreStatus(integrity_secret=name)}) for name in ("a", "b")]
    volumes = {volume["name"]: volume for volume in pod(service(), made[0])["volumes"]}
    revisions = {render_service(service(), store=each).revision for each in made}

    assert volumes["kv-secret"]["secret"]["secretName"] == "a"
    assert len(revisions) == 2


def test_a_secret_that_the_spec_names_comes_before_one_that_was_made() -> None:
    made = store().model_copy(update={"status": KVStoreStatus(integrity_secret=MADE)})

    assert made.integrity_secret == made.spec.integrity_secret_ref
    assert render_service(service(), store=made).revision == render_service(service(), store=store()).revision


def test_on_one_machine_nothing_is_mounted_and_the_runner_gives_the_places() -> None:
    rendered = render_service(
        service(), store=store(integritySecretRef=None), options=local_options(engine_python="py")
    )
    spec = rendered.pools[0].pod_template["spec"]

    assert [c["name"] for c in spec["initContainers"]] == ["agent"]
    assert {"INFERPLANE_KV_SOCKET", "INFERPLANE_KV_SECRET", "INFERPLANE_KV_PATH"} <= {
        entry["name"] for entry in container(spec, "engine")["env"]
    }


def test_the_agent_follows_the_store() -> None:
    agent = container(pod(service(), store()), "agent")
    plain = container(pod(service(), None), "agent")

    assert agent["args"][agent["args"].index("--kv-store") + 1] == "$(INFERPLANE_KV_SOCKET)"
    assert {"name": "INFERPLANE_KV_SOCKET", "value": "/run/inferplane/kv.sock"} in agent["env"]
    assert "--kv-store" not in plain["args"]
