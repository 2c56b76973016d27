"""LeaderWorkerSets, kept as files: no such controller was there, so a review is all that a change of them gets.

Regenerate: INFERPLANE_REGENERATE_GOLDEN=1 .venv/bin/python -m pytest tests/operator -k golden
"""

import os
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from inferplane_api.v1alpha1 import InferenceService
from inferplane_api.v1alpha1.manifests import load_manifests
from inferplane_operator.render import render_service
from inferplane_operator.render.multi_node import leader_worker_set, nodes_of

GOLDEN = Path(__file__).parent / "golden" / "contract"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
MANIFEST = """
apiVersion: inferplane.dev/v1alpha1
kind: InferenceService
metadata: {{name: large, namespace: inference}}
spec:
  model: {{name: large, source: {{hf: org/large}}, secretRef: hub, cache: {{claimName: weights}}}}
  engine: {{type: {engine}}}
  decode:
    accelerator: h100
    parallelism: {{tensor: 8, pipeline: 2}}
    podTemplate:
      spec:
        tolerations: [{{key: nvidia.com/gpu, operator: Exists}}]
        containers: [{{name: engine, volumeMounts: [{{name: rdma, mountPath: /dev/infiniband}}]}}]
        volumes: [{{name: rdma, hostPath: {{path: /dev/infiniband}}}}]
"""


def group(engine: str) -> dict[str, Any]:
    (service,) = load_manifests(MANIFEST.format(engine=engine))
    assert isinstance(service, InferenceService)
    (pool,) = render_service(service, model_revision=COMMIT).pools
    assert nodes_of(pool.pod_template) == pool.nodes == 2
    return leader_worker_set(
        name=f"{pool.name}-{pool.revision}",
        namespace="inference",
        replicas=3,
        labels=pool.pod_template["metadata"]["labels"],
        template=pool.pod_template,
    )


def engine_of(template: dict[str, Any]) -> dict[str, Any]:
    (found,) = (container for container in template["spec"]["containers"] if container["name"] == "engine")
    return dict(found)


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_golden_group_is_as_reviewed(engine: str) -> None:
    found, golden = group(engine), GOLDEN / f"nodes-{engine}.yaml"
    if os.environ.get("INFERPLANE_REGENERATE_GOLDEN"):
        golden.write_text(cast("Any", yaml).safe_dump(found, sort_keys=False, width=120))

    assert yaml.safe_load(golden.read_text()) == found


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_only_the_first_node_is_a_worker_to_others(engine: str) -> None:
    made = group(engine)["spec"]["leaderWorkerTemplate"]
    leader, other = made["leaderTemplate"], made["workerTemplate"]

    assert leader["metadata"]["labels"]["inferplane.dev/component"] == "worker"
    assert other["metadata"]["labels"]["inferplane.dev/component"] == "worker-node"
    assert [container["name"] for container in leader["spec"]["initContainers"]] == ["agent", "fetch-model"]
    assert [container["name"] for container in other["spec"]["initContainers"]] == ["fetch-model"]
    assert not {"startupProbe", "livenessProbe", "lifecycle", "ports"} & set(engine_of(other))


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_each_node_has_its_devices_and_the_users_template(engine: str) -> None:
    made = group(engine)["spec"]["leaderWorkerTemplate"]

    for template in (made["leaderTemplate"], made["workerTemplate"]):
        found = engine_of(template)
        assert found["resources"]["limits"]["nvidia.com/gpu"] == "8"
        assert template["spec"]["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists"}]
        assert "/dev/infiniband" in [mount["mountPath"] for mount in found["volumeMounts"]]


def test_a_group_starts_as_a_whole() -> None:
    spec = group("vllm")["spec"]

    assert spec["leaderWorkerTemplate"]["size"] == 2
    assert spec["leaderWorkerTemplate"]["restartPolicy"] == "RecreateGroupOnPodRestart"
    assert spec["startupPolicy"] == "LeaderCreated", "the first node is ready only once the others are there"


@pytest.mark.parametrize(("engine", "last"), [("vllm", "--headless"), ("sglang", "--enable-metrics")])
def test_other_nodes_know_their_rank(engine: str, last: str) -> None:
    args = engine_of(group(engine)["spec"]["leaderWorkerTemplate"]["workerTemplate"])["args"]

    assert args[args.index("--node-rank") + 1] == "$(LWS_WORKER_INDEX)"
    assert args[-1] == last
