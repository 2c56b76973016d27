"""The custom resource definitions refuse what the types refuse, accept what they accept, and mean the same by defaults.

Resources are examples that were changed at random in a few places; definitions are evaluated with a stand-in for an API
server.
"""

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from inferplane_api.schema.__main__ import definition_yaml
from inferplane_api.schema.definitions import NAMES, custom_resource_definition
from inferplane_api.schema.structural import Schema, structural_schema
from inferplane_api.schema.testing import ApiServer, unstructural
from inferplane_api.v1alpha1 import KINDS
from inferplane_api.v1alpha1.manifests import ManifestError, dump_resource, load_manifests, parse_resource
from inferplane_api.v1alpha1.wire import FORM

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.yaml"))
SERVERS = {kind: ApiServer(kind) for kind in KINDS}
POOL: Schema = {"service": "demo", "revision": "r1", "podTemplate": {"metadata": {}, "spec": {}}}


def resource(kind: str, spec: Schema) -> Schema:
    return {"apiVersion": "inferplane.dev/v1alpha1", "kind": kind, "metadata": {"name": "demo"}, "spec": spec}


def service(**spec: Any) -> Schema:
    return resource("InferenceService", {"model": {"name": "m"}, "engine": {"type": "sim"}, **spec})


def examples() -> list[Schema]:
    loaded = [
        dump_resource(found)
        for path in EXAMPLES
        for found in load_manifests(path.read_text(), relative_to=Path("/srv/examples"))
    ]
    return [*loaded, *(resource(kind, POOL) for kind in ("PrefillPool", "DecodePool"))]


RESOURCES = examples()


def accepted(value: Schema) -> bool:
    try:
        parse_resource(value)
    except ManifestError:
        return False
    return True


@pytest.mark.parametrize("kind", KINDS)
def test_schemas_are_structural(kind: str) -> None:
    assert unstructural(SERVERS[kind].schema) == []


def test_every_kind_has_a_definition() -> None:
    assert set(NAMES) == set(KINDS)


def test_all_definitions_together_are_small_enough_for_a_release() -> None:
    assert sum(len(definition_yaml(kind)) for kind in KINDS) < 300_000


def test_no_name_belongs_to_another_project() -> None:
    short = [name for names in NAMES.values() for name in names.short]

    assert "isvc" not in short
    assert len(set(short)) == len(short)


@pytest.mark.parametrize("kind", ["PrefillPool", "DecodePool"])
def test_pools_are_scaled_by_anybody(kind: str) -> None:
    version = custom_resource_definition(kind)["spec"]["versions"][0]
    properties = version["schema"]["openAPIV3Schema"]["properties"]

    scale = version["subresources"]["scale"]
    assert scale["specReplicasPath"] == ".spec.replicas"
    assert {"replicas", "selector"} <= set(properties["status"]["properties"])


@pytest.mark.parametrize("kind", KINDS)
def test_columns_show_fields_that_there_are(kind: str) -> None:
    version = custom_resource_definition(kind)["spec"]["versions"][0]
    properties = version["schema"]["openAPIV3Schema"]["properties"]

    for column in version["additionalPrinterColumns"]:
        first, *rest = column["jsonPath"].removeprefix(".").replace("[", ".[").split(".")
        node = properties[first]
        for name in rest if first != "metadata" else ():
            if name.startswith("["):
                node = node["items"]
                break
            node = node["properties"][name]


@pytest.mark.parametrize("value", RESOURCES, ids=lambda value: f"{value['kind']}-{value['metadata']['name']}")
def test_examples_are_stored_and_defaults_change_nothing(value: Schema) -> None:
    server = SERVERS[value["kind"]]

    assert server.refusals(value) == []
    assert server.refusals(value, before=value) == []
    assert parse_resource(server.defaulted(value)) == parse_resource(value)


def test_a_stored_service_shows_its_defaults() -> None:
    spec = SERVERS["InferenceService"].defaulted(service())["spec"]

    assert spec["slo"] == {"ttft": "2s", "tpot": "100ms", "percentile": 99.0, "window": "5m"}
    assert spec["engine"]["shmSize"] == "2Gi"
    assert spec["decode"]["parallelism"] == {"tensor": 1, "pipeline": 1, "data": 1, "expert": False}
    assert "prefill" not in spec
    assert "status" not in SERVERS["InferenceService"].defaulted(service())


CPU = {"type": "vllm", "device": "cpu"}
WEIGHTS = {"name": "m", "source": {"path": "/m"}}


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        (service(), service(model={"name": "other"}), "spec.model.name: cannot be changed"),
        (service(), service(engine={"type": "sim", "blockSize": 32}), "size of KV blocks cannot be changed"),
        (
            service(model=WEIGHTS, engine=CPU),
            service(model=WEIGHTS, engine={"type": "vllm"}),
            "size of KV blocks cannot be changed",
        ),
        (service(), service(engine={"type": "sim", "blockSize": 16}), None),
        (service(), service(slo={"ttft": "1s"}, mode="aggregated"), None),
        (
            resource("DecodePool", POOL),
            resource("DecodePool", {**POOL, "service": "other"}),
            "spec.service: cannot be changed",
        ),
        (resource("DecodePool", POOL), resource("DecodePool", {**POOL, "revision": "r2", "replicas": 9}), None),
        (
            resource("LoRAAdapter", {"service": "a", "source": {"path": "/a"}}),
            resource("LoRAAdapter", {"service": "b", "source": {"path": "/a"}}),
            "spec.service: cannot be changed",
        ),
    ],
    ids=["model", "block-size", "default-block-size", "said-default", "slo", "pool", "pool-revision", "adapter"],
)
def test_what_names_blocks_cannot_be_changed(before: Schema, after: Schema, says: str | None) -> None:
    refusals = SERVERS[before["kind"]].refusals(after, before=before)

    assert [says in refusal for refusal in refusals] == [True] if says else refusals == []


WORDS = (
    "",
    "a",
    "demo",
    "a-b",
    "a.b",
    "A",
    "auto",
    "fp8",
    "_x",
    "a b",
    "é",
    "owner/name",
    "/m",
    "../m",
    "/a/../b",
    "r1",
)
DURATIONS = ("0s", "1ms", "50ms", "1.5s", "90s", "2h", "25h", "721h", "87600h", "87601h", "1h30m", "2", "", "-1s", "µs")
BYTES = (0, 1, 2**40, 2**63 - 1, -1, "0", "64Mi", "0.5Gi", "0.3Ki", "7.", "1500m", "-1", "1e3", "x", "")
QUANTITIES = (1, 2, "1", "500m", "64Gi", "1.5", "-1", "1e3", "x")
NAMES_OF_VARIABLES = ("A", "A_1", "a.b", "1A", "INFERPLANE_X", "A B", "")
RESOURCE_NAMES = ("cpu", "memory", "nvidia.com/gpu")
# No null: an API server drops it, as if it were not written.
ODD: tuple[Any, ...] = (True, 0, 1.5, "3", [], {}, ["a", "a"], {"a": "b"})


def scalars(node: Schema) -> st.SearchStrategy[Any]:
    if "enum" in node:
        return st.sampled_from([*node["enum"], *node["enum"], "other"])
    pools = {"duration": DURATIONS, "bytes": BYTES, "quantity": QUANTITIES}
    if node.get(FORM) in pools:
        return st.sampled_from(pools[node[FORM]])
    if node["type"] == "boolean":
        return st.booleans()
    if node["type"] == "string":
        return st.sampled_from(WORDS)
    low, high = node.get("minimum", -1), node.get("maximum", 2**31)
    near = [1, 2, 3, 8, 16, 32, 48, 64, 100, low, high, low - 1, high + 1]
    return st.sampled_from([*near, 0.5, 99.9] if node["type"] == "number" else near)


def values(node: Schema) -> st.SearchStrategy[Any]:
    if "items" in node:
        return st.lists(values(node["items"]), min_size=node.get("minItems", 0), max_size=3)
    if "additionalProperties" in node:
        keys = NAMES_OF_VARIABLES if node.get(FORM) == "environment" else RESOURCE_NAMES
        return st.dictionaries(st.sampled_from(keys), values(node["additionalProperties"]), max_size=3)
    if "properties" in node:
        required = set(node.get("required", ()))
        known = {name: values(inner) for name, inner in node["properties"].items()}
        return st.fixed_dictionaries(
            {name: inner for name, inner in known.items() if name in required},
            optional={name: inner for name, inner in known.items() if name not in required},
        )
    if node.get("type") == "object":
        return st.sampled_from([{}, {"containers": []}])
    return scalars(node)


def places(path: tuple[str, ...], node: Schema) -> Iterator[tuple[tuple[str, ...], st.SearchStrategy[Any]]]:
    """Give every place of a resource and what may be written there."""
    yield path, values(node)
    for name, inner in node.get("properties", {}).items():
        yield from places((*path, name), inner)


PLACES = {kind: dict(places(("spec",), structural_schema(KINDS[kind])["properties"]["spec"])) for kind in KINDS}


@st.composite
def changed(draw: st.DrawFn) -> Schema:
    """Take an example and change up to three places: something drawn by the schema, something odd, or nothing."""
    value = copy.deepcopy(draw(st.sampled_from(RESOURCES)))
    for _ in range(draw(st.integers(0, 3))):
        path, drawn = draw(st.sampled_from(list(PLACES[value["kind"]].items())))
        parent = value
        for name in path[:-1]:
            inner: object = parent.setdefault(name, {})
            if not isinstance(inner, dict):
                break  # something odd was written above it
            parent = cast("Schema", inner)
        else:
            change(draw, parent, path[-1], drawn)
    return value


def change(draw: st.DrawFn, parent: Schema, name: str, drawn: st.SearchStrategy[Any]) -> None:
    what = draw(st.sampled_from(("drop", "odd", *["draw"] * 6)))
    if what == "drop":
        parent.pop(name, None)
    else:
        parent[name] = copy.deepcopy(draw(drawn if what == "draw" else st.sampled_from(ODD)))


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(value=changed())
def test_definitions_and_types_agree(value: Schema) -> None:
    refusals = SERVERS[value["kind"]].refusals(value)

    assert accepted(value) == (refusals == []), (json.dumps(value), refusals)


@settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow])
@given(value=changed().filter(accepted))
def test_defaults_mean_the_same(value: Schema) -> None:
    assert parse_resource(SERVERS[value["kind"]].defaulted(value)) == parse_resource(value)
