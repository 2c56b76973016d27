"""Manifests to blueprint: rendering, overrides, devices, and what a machine cannot do."""

from typing import Any

import pytest

from inferplane_api.catalogue import WorkerRole
from inferplane_operator.local.assemble import UnsuitableError, assemble, local_name
from inferplane_operator.local.blueprint import Blueprint
from inferplane_operator.local.desired import Desired
from inferplane_operator.local.machine import Machine
from inferplane_operator.local.statedir import StateError
from inferplane_operator.render import container_environment

API = "inferplane.dev/v1alpha1"


def service(name: str = "demo", **spec: Any) -> dict[str, Any]:
    defaults = {
        "model": {"name": "m"},
        "engine": {"type": "sim"},
        "prefill": {"replicas": 1, "maxReplicas": 4},
        "decode": {"replicas": 2, "maxReplicas": 4},
    }
    return {"apiVersion": API, "kind": "InferenceService", "metadata": {"name": name}, "spec": {**defaults, **spec}}


def vllm(**engine: Any) -> dict[str, Any]:
    return service(model={"name": "m", "source": {"path": "/weights"}}, engine={"type": "vllm", **engine})


def build(
    *manifests: dict[str, Any], gpus: tuple[str, ...] = (), cores: int = 8, replicas: dict[str, int] | None = None
) -> Blueprint:
    desired = Desired(manifests=list(manifests), engine_python="/engine/python", replicas=replicas or {})
    return assemble(desired, machine=Machine(gpus), cores=cores)


def environment(blueprint: Blueprint) -> dict[str, str]:
    return container_environment(blueprint.pools[-1].engine, {})


def test_pools_carry_roles_sizes_and_one_revision() -> None:
    blueprint = build(service())
    prefill, decode = blueprint.pools

    assert (prefill.name, prefill.role, prefill.replicas) == ("prefill", WorkerRole.PREFILL, 1)
    assert (decode.name, decode.role, decode.replicas, decode.max_replicas) == ("decode", WorkerRole.DECODE, 2, 4)
    assert prefill.revision == decode.revision
    assert (prefill.gpus, prefill.ranks) == (0, 1)
    assert blueprint.service.name == "demo"


def test_a_gateway_has_the_processes_that_the_service_asks_for() -> None:
    assert build(service()).gateway_processes == 1
    assert build(service(gateway={"processes": 3})).gateway_processes == 3


def test_replica_overrides_hold_within_the_manifests_bounds() -> None:
    assert build(service(), replicas={"decode": 3}).pools[1].replicas == 3
    assert build(service(), replicas={"demo-decode": 3}).pools[1].replicas == 3
    assert build(service(), replicas={"decode": 9}).pools[1].replicas == 4
    assert build(service(), replicas={"decode": 0}).pools[1].replicas == 1


def test_replicas_do_not_change_the_revision() -> None:
    assert build(service()).pools[1].revision == build(service(), replicas={"decode": 4}).pools[1].revision


def test_vllm_without_gpus_computes_on_the_cpu_and_shares_the_cores() -> None:
    blueprint = build(vllm(), cores=8)
    engine = blueprint.pools[1].engine

    assert blueprint.pools[1].gpus == 0
    assert "--enforce-eager" in engine["args"]
    assert engine["args"][:3] == ["/engine/python", "-m", "vllm.entrypoints.openai.api_server"]
    assert environment(blueprint)["OMP_NUM_THREADS"] == "2"
    assert environment(blueprint)["PYTHONPATH"].endswith("vllm_cpu_plugin")


def test_variables_of_the_manifest_win_over_ours() -> None:
    assert environment(build(vllm(env={"OMP_NUM_THREADS": "5"})))["OMP_NUM_THREADS"] == "5"


def test_vllm_with_gpus_takes_them() -> None:
    manifest = vllm()
    manifest["spec"]["decode"]["parallelism"] = {"tensor": 2}
    manifest["spec"]["prefill"]["parallelism"] = {"tensor": 2}
    blueprint = build(manifest, gpus=("0", "1"))

    assert blueprint.pools[1].gpus == 2
    assert "OMP_NUM_THREADS" not in environment(blueprint)


def test_a_block_size_that_only_a_gpu_can_do_is_refused_without_one() -> None:
    with pytest.raises(UnsuitableError, match=r"spec.engine.blockSize: 48 does not fit .* use a multiple of 32"):
        build(vllm(blockSize=48))

    assert build(vllm(blockSize=48), gpus=("0",)).pools


def test_an_engine_nobody_can_start_is_refused_with_the_fix() -> None:
    manifest = service(model={"name": "m", "source": {"path": "/weights"}}, engine={"type": "sglang"})
    with pytest.raises(StateError, match="use vllm or sim"):
        build(manifest)


def test_a_damaged_manifest_names_its_field() -> None:
    with pytest.raises(StateError, match=r"spec\.replica: unknown field"):
        build(service(replica=3))


def test_one_service_an_instance() -> None:
    with pytest.raises(UnsuitableError, match="holds 2 InferenceServices"):
        build(service(), service("other"))
    with pytest.raises(UnsuitableError, match="holds 0 InferenceServices"):
        build()


def test_routes_go_into_the_blueprint() -> None:
    route = {
        "apiVersion": API,
        "kind": "ModelRoute",
        "metadata": {"name": "alias"},
        "spec": {"targets": [{"servedName": "m"}]},
    }

    assert [entry.name for entry in build(service(), route).routes] == ["alias"]


def test_pool_names_lose_the_services_name() -> None:
    assert local_name("demo-decode", "demo") == "decode"
    assert local_name("decode", "demo") == "decode"
