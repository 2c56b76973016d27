"""Types and an API server refuse the same weights, claims and speculation."""

from typing import Any

import pytest

from inferplane_api.schema.testing import ApiServer
from inferplane_api.v1alpha1.manifests import ManifestError, parse_resource

SERVER = ApiServer("InferenceService")
HUB = {"name": "m", "source": {"hf": "org/m"}}
DISK = {"name": "m", "source": {"path": "/m"}}


def service(model: dict[str, Any], *, engine: dict[str, Any], claim: dict[str, Any] | None) -> dict[str, Any]:
    decode = {"resources": {"claims": [claim]}} if claim else {}
    return {
        "apiVersion": "inferplane.dev/v1alpha1",
        "kind": "InferenceService",
        "metadata": {"name": "demo"},
        "spec": {"model": model, "engine": {"type": "vllm", **engine}, "decode": decode},
    }


@pytest.mark.parametrize(
    ("model", "engine", "claim"),
    [
        ({**HUB, "cache": {"claimName": "weights"}}, {}, None),
        ({**HUB, "cache": {"hostPath": "/srv/weights"}, "endpoint": "http://mirror:8080/hub"}, {}, None),
        ({**HUB, "caBundle": {"configMapName": "ca"}}, {}, None),
        (DISK, {"speculation": {"method": "ngram", "tokens": 4}}, None),
        (DISK, {"speculation": {"method": "eagle3", "source": {"hf": "org/e"}, "revision": "v1"}}, None),
        (DISK, {}, {"name": "gpu", "deviceClassName": "gpu.example.com", "count": 2, "selectors": ["true"]}),
    ],
    ids=["claim", "mirror", "ca", "ngram", "eagle3", "class"],
)
def test_both_take(model: dict[str, Any], engine: dict[str, Any], claim: dict[str, Any] | None) -> None:
    value = service(model, engine=engine, claim=claim)

    assert SERVER.refusals(value) == []
    assert parse_resource(value)


@pytest.mark.parametrize(
    ("model", "engine", "claim", "field"),
    [
        ({**DISK, "cache": {"claimName": "weights"}}, {}, None, "model.cache"),
        ({**DISK, "endpoint": "http://mirror"}, {}, None, "model.endpoint"),
        ({**DISK, "caBundle": {"secretName": "ca"}}, {}, None, "model.caBundle"),
        ({**HUB, "cache": {"claimName": "c", "hostPath": "/w"}}, {}, None, "model.cache"),
        ({**HUB, "cache": {}}, {}, None, "model.cache"),
        ({**HUB, "caBundle": {"configMapName": "a", "secretName": "b"}}, {}, None, "model.caBundle"),
        ({**HUB, "endpoint": "mirror"}, {}, None, "model.endpoint"),
        (DISK, {"speculation": {"method": "eagle"}}, None, "engine.speculation.source"),
        (DISK, {"speculation": {"method": "mtp", "source": {"path": "/e"}}}, None, "engine.speculation.source"),
        (
            DISK,
            {"speculation": {"method": "draft", "source": {"path": "/e"}, "revision": "v1"}},
            None,
            "engine.speculation.revision",
        ),
        (DISK, {"type": "sim", "speculation": {"method": "ngram"}}, None, "engine.speculation"),
        (DISK, {}, {"name": "gpu"}, "decode.resources.claims[0]"),
        (DISK, {}, {"name": "gpu", "resourceClaimName": "x", "deviceClassName": "y"}, "decode.resources.claims[0]"),
        (DISK, {}, {"name": "gpu", "resourceClaimName": "x", "count": 2}, "decode.resources.claims[0].count"),
    ],
    ids=[
        "cache",
        "endpoint",
        "ca",
        "two-places",
        "no-place",
        "two-objects",
        "no-url",
        "no-weights",
        "useless-weights",
        "revision",
        "sim",
        "no-reference",
        "two-references",
        "count",
    ],
)
def test_both_refuse_and_name_the_field(
    model: dict[str, Any], engine: dict[str, Any], claim: dict[str, Any] | None, field: str
) -> None:
    value = service(model, engine=engine, claim=claim)

    with pytest.raises(ManifestError) as caught:
        parse_resource(value)
    assert f"spec.{field}" in {problem.path for problem in caught.value.problems}
    assert [refusal for refusal in SERVER.refusals(value) if f"spec.{field}" in refusal]
