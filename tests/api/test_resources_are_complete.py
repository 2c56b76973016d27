"""The resource types: every field explained, values frozen, wire names camelCase, nothing lost on the way."""

from collections.abc import Iterator

import pytest
from pydantic import BaseModel, ValidationError

from inferplane_api.catalogue import RoutingMode
from inferplane_api.v1alpha1 import KINDS, ConditionType, InferenceService, Resource
from inferplane_api.v1alpha1.inference_service import InferenceServiceSpec
from inferplane_api.v1alpha1.manifests import dump_resource, load_manifests, parse_resource
from inferplane_api.v1alpha1.metadata import ObjectMeta
from inferplane_api.v1alpha1.model import ModelSpec
from inferplane_api.v1alpha1.problems import nested_models
from inferplane_api.v1alpha1.source import ModelSource

STATUS_OF = {"PrefillPool": "Pool", "DecodePool": "Pool"}


def all_fields() -> Iterator[tuple[type[BaseModel], str]]:
    for kind in KINDS.values():
        for model in nested_models(kind):
            for name in model.model_fields:
                yield model, name


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_has_a_description(kind: str) -> None:
    missing = [
        f"{model.__name__}.{name}"
        for model in nested_models(KINDS[kind])
        for name, field in model.model_fields.items()
        if not field.description
    ]

    assert missing == []


def test_wire_names_are_camel_case_without_units() -> None:
    aliases = {field.alias or "" for model, name in all_fields() for field in [model.model_fields[name]]}

    assert [alias for alias in aliases if "_" in alias or alias != alias.strip()] == []
    assert {"ttft", "kvCacheMemory", "drainTimeout", "minReplicas"} <= aliases


def test_a_status_says_what_the_design_promises() -> None:
    wanted = {"Ready", "SLOMet", "Progressing", "Degraded", "KVRoutingHealthy", "Unverified"}

    assert wanted == {condition.value for condition in ConditionType}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_spec_status_and_observed_generation(kind: str) -> None:
    schema = KINDS[kind].model_json_schema()

    assert {"apiVersion", "kind", "metadata", "spec", "status"} == set(schema["properties"])
    status = schema["$defs"][f"{STATUS_OF.get(kind, kind)}Status"]
    assert {"observedGeneration", "conditions"} <= set(status["properties"])


def test_values_cannot_be_changed() -> None:
    source = ModelSource(path="/m")

    with pytest.raises(ValidationError, match="frozen"):
        source.path = "/other"  # pyright: ignore[reportAttributeAccessIssue]  # the point of the test


def test_the_smallest_service_has_defaults_for_everything_else() -> None:
    service = InferenceService(
        metadata=ObjectMeta(name="tiny"),
        spec=InferenceServiceSpec(model=ModelSpec(name="m", source=ModelSource(path="/m"))),
    )

    assert service.spec.mode is RoutingMode.AUTO
    assert service.spec.slo.ttft_s == 2.0
    assert service.spec.model.all_served_names == ("m",)
    assert parse_resource(dump_resource(service)) == service


def test_units_are_written_on_the_wire_and_numbers_inside() -> None:
    (service,) = load_manifests("""
apiVersion: inferplane.dev/v1alpha1
kind: InferenceService
metadata: {name: demo}
spec:
  model: {name: m}
  engine: {type: sim, kvCacheMemory: 0.5Gi}
  slo: {ttft: 0.25s, tpot: 20ms}
""")

    assert isinstance(service, InferenceService)
    assert service.spec.slo.ttft_s == 0.25
    assert service.spec.engine.kv_cache_memory_bytes == 2**29
    dumped = dump_resource(service)["spec"]
    assert dumped["slo"] == {"ttft": "250ms", "tpot": "20ms"}
    assert dumped["engine"]["kvCacheMemory"] == "512Mi"


POOL = """
apiVersion: inferplane.dev/v1alpha1
kind: {kind}
metadata: {{name: demo-pool}}
spec:
  service: demo
  replicas: 7
  maxReplicas: 4
  revision: abc123
  podTemplate: {{metadata: {{}}, spec: {{}}}}
"""


@pytest.mark.parametrize("kind", ["PrefillPool", "DecodePool"])
def test_a_pool_keeps_what_somebody_scaled_it_to(kind: str) -> None:
    (pool,) = load_manifests(POOL.format(kind=kind))
    loaded: Resource = parse_resource(dump_resource(pool))

    assert loaded == pool
    assert loaded.kind == kind
