"""What a pool's accelerator class means for its Pods, and what is refused."""

from typing import Any

import pytest

from inferplane_api.v1alpha1 import InferenceService
from inferplane_api.v1alpha1.manifests import parse_resource
from inferplane_operator.render import RenderedPool, RenderError, RenderOptions, local_options, render_service
from inferplane_operator.render.accelerators import Accelerators, AcceleratorsError, built_in_classes, read_accelerators

FILE = """
classes:
  h100:
    vendor: NVIDIA
    memory: 80Gi
    devicesPerNode: 8
    runtimeClassName: nvidia
    nodeSelector: {example.com/gpu: h100-sxm}
    pricePerHour: 2.5
  small: {device: cuda, migProfile: 1g.12gb, memory: 11Gi}
"""


def service(decode: dict[str, Any], **engine: Any) -> InferenceService:
    parsed = parse_resource(
        {
            "apiVersion": "inferplane.dev/v1alpha1",
            "kind": "InferenceService",
            "metadata": {"name": "demo", "namespace": "ns"},
            "spec": {
                "model": {"name": "m", "source": {"path": "/m"}},
                "engine": {"type": "vllm", "image": "engine", **engine},
                "decode": decode,
            },
        }
    )
    assert isinstance(parsed, InferenceService)
    return parsed


def rendered(decode: dict[str, Any], *, file: str = "", **engine: Any) -> RenderedPool:
    options = RenderOptions(accelerators=read_accelerators(file))
    return render_service(service(decode, **engine), options=options).pools[0]


def body(pool: RenderedPool) -> dict[str, Any]:
    found: dict[str, Any] = pool.pod_template["spec"]
    return found


def limits(pool: RenderedPool) -> dict[str, str]:
    (found,) = body(pool)["containers"]
    return dict(found["resources"].get("limits", {}))


def args(pool: RenderedPool) -> list[str]:
    (found,) = body(pool)["containers"]
    return list(found["args"])


@pytest.mark.parametrize(
    ("decode", "engine", "expected", "devices"),
    [
        ({"accelerator": "h100", "parallelism": {"tensor": 4, "data": 2}}, {}, {"nvidia.com/gpu": "8"}, 8),
        ({"accelerator": "mi300x"}, {"device": "rocm"}, {"amd.com/gpu": "1"}, 1),
        ({"accelerator": "ascend-910b"}, {"device": "npu"}, {"huawei.com/Ascend910": "1"}, 1),
        ({"accelerator": "h100-3g.40gb"}, {}, {"nvidia.com/mig-3g.40gb": "1"}, 1),
        ({"accelerator": "cpu"}, {"device": "cpu"}, {}, 0),
        ({"accelerator": "small"}, {}, {"nvidia.com/mig-1g.12gb": "1"}, 1),
        ({"accelerator": "h100", "resources": {"limits": {"a.com/gpu": 2}}}, {}, {"a.com/gpu": "2"}, 1),
    ],
    ids=["nvidia", "amd", "ascend", "slice", "cpu", "file", "own-limits"],
)
def test_devices_of_a_pod_have_the_resource_of_their_class(
    decode: dict[str, Any], engine: dict[str, Any], expected: dict[str, str], devices: int
) -> None:
    pool = rendered(decode, file=FILE, **engine)

    assert (limits(pool), pool.devices) == (expected, devices)


def test_a_file_says_where_a_class_is_found_and_what_it_costs() -> None:
    pool = rendered({"accelerator": "h100"}, file=FILE)
    found = read_accelerators(FILE).get("h100")

    assert body(pool)["runtimeClassName"] == "nvidia"
    assert body(pool)["nodeSelector"] == {"example.com/gpu": "h100-sxm"}
    assert found is not None
    assert (found.price_per_hour, found.memory_bytes) == (2.5, 80 * 1024**3)


def test_a_file_adds_to_what_is_built_in() -> None:
    assert set(built_in_classes()) | {"small"} == set(read_accelerators(FILE).classes)
    assert read_accelerators("") == Accelerators()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("classes: {x: {memory: lots}}", "classes.x.memory"),
        ("classes: {x: {devics: 8}}", "classes.x.devics: unknown field; did you mean device?"),
        ("classes: {x: {device: tpu}}", "use one of cuda, rocm, xpu, npu, cpu"),
        ("classes: {x: {device: rocm, migProfile: 1g.10gb}}", "classes.x.migProfile"),
        ("classes: {x: {device: cpu, resource: a.com/b}}", "classes.x.resource"),
        ("classes: [1]", "classes: [1] is not a mapping"),
        ("[1]", "it is not a mapping"),
        ("{", "it is not YAML"),
    ],
    ids=["quantity", "unknown", "device", "slice", "resource", "list", "document", "syntax"],
)
def test_a_file_that_is_wrong_names_class_field_and_fix(text: str, says: str) -> None:
    with pytest.raises(AcceleratorsError) as caught:
        read_accelerators(text, source="/etc/classes.yaml")

    assert str(caught.value).startswith("/etc/classes.yaml: ")
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("decode", "engine", "field", "fix"),
    [
        ({"accelerator": "h1000"}, {}, "spec.decode.accelerator", "use one of a100, a100-40gb"),
        ({"accelerator": "mi300x"}, {}, "spec.decode.accelerator", "set spec.engine.device to rocm"),
        (
            {"accelerator": "h100-1g.10gb", "parallelism": {"tensor": 2}},
            {},
            "spec.decode.parallelism",
            "use whole devices",
        ),
        (
            {"accelerator": "h100", "parallelism": {"tensor": 8, "data": 2}},
            {},
            "spec.decode.parallelism.data",
            "add replicas",
        ),
    ],
    ids=["unknown", "device", "slices", "ranks"],
)
def test_what_cannot_be_names_field_and_fix(
    decode: dict[str, Any], engine: dict[str, Any], field: str, fix: str
) -> None:
    with pytest.raises(RenderError) as caught:
        rendered(decode, **engine)

    assert caught.value.path == field
    assert fix in caught.value.fix


def test_a_machine_has_what_it_has() -> None:
    options = local_options(engine_python="/engine/python")
    pool = render_service(service({"accelerator": "mi300x", "parallelism": {"tensor": 16}}), options=options).pools[0]

    assert (pool.devices, pool.nodes) == (16, 1)
    assert "nodeSelector" not in body(pool)


def test_workers_rather_stand_on_different_nodes() -> None:
    (spread,) = body(rendered({}))["topologySpreadConstraints"]

    assert spread["whenUnsatisfiable"] == "ScheduleAnyway"
    assert spread["labelSelector"] == {"matchLabels": {"inferplane.dev/pool": "demo-decode"}}


def test_a_claim_by_class_gets_a_template_of_its_revision() -> None:
    claim = {"name": "gpu", "deviceClassName": "gpu.example.com", "selectors": ["device.driver == 'x'"]}
    pool = rendered({"parallelism": {"tensor": 2}, "resources": {"claims": [claim]}})
    (template,) = pool.claim_templates

    name = f"demo-decode-{pool.revision}-gpu"
    assert template["metadata"] == {"name": name, "namespace": "ns"}
    assert body(pool)["resourceClaims"] == [{"name": "gpu", "resourceClaimTemplateName": name}]
    assert template["spec"]["spec"]["devices"]["requests"] == [
        {
            "name": "gpu",
            "exactly": {
                "deviceClassName": "gpu.example.com",
                "allocationMode": "ExactCount",
                "count": 2,
                "selectors": [{"cel": {"expression": "device.driver == 'x'"}}],
            },
        }
    ]
    assert limits(pool) == {}


@pytest.mark.parametrize(
    ("shape", "nodes", "per_node"),
    [
        ({"tensor": 8}, 1, "8"),
        ({"tensor": 16}, 2, "8"),
        ({"tensor": 8, "pipeline": 3}, 3, "8"),
        ({"tensor": 12}, 2, "6"),
    ],
    ids=["one", "two", "three", "even"],
)
def test_a_worker_is_spread_evenly_over_the_fewest_nodes(shape: dict[str, int], nodes: int, per_node: str) -> None:
    pool = rendered({"accelerator": "h100", "parallelism": shape})

    assert (pool.nodes, limits(pool)["nvidia.com/gpu"]) == (nodes, per_node)
    assert ("--nnodes" in args(pool)) is (nodes > 1)
