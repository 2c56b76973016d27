"""Whatever is put into a manifest, the answer is a resource or an error that says what is wrong."""

import copy
import json
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from inferplane_api.v1alpha1 import InferenceService, ObjectMeta, Resource
from inferplane_api.v1alpha1.inference_service import InferenceServiceSpec
from inferplane_api.v1alpha1.manifests import ManifestError, load_manifests
from inferplane_api.v1alpha1.problems import Problem
from inferplane_operator.render import RenderError, render_service

pytestmark = pytest.mark.slow

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.yaml"))
DOCUMENTS: list[dict[str, Any]] = [document for path in EXAMPLES for document in yaml.safe_load_all(path.read_text())]

SCALAR = st.none() | st.booleans() | st.integers(-5, 10**6) | st.floats(allow_nan=False) | st.text(max_size=8)
NAMES = ("name", "spec", "env", "containers", "initContainers", "labels", "metadata", "agent", "engine", "volumes")
WORDS = st.sampled_from((*NAMES, "ports", "$patch"))
VALUE = st.recursive(
    SCALAR | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=6,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    for key, inner in entries(value):
        found += places(inner, (*path, key))
    return found


def entries(value: Any) -> list[tuple[Any, Any]]:
    if isinstance(value, dict):
        return list(cast("dict[str, object]", value).items())
    return list(enumerate(cast("list[object]", value))) if isinstance(value, list) else []


@st.composite
def spoilt(draw: st.DrawFn) -> dict[str, Any]:
    document: dict[str, Any] = copy.deepcopy(draw(st.sampled_from(DOCUMENTS)))
    for _ in range(draw(st.integers(1, 3))):
        *path, last = draw(st.sampled_from(places(document)))
        target: Any = document
        for part in path:
            target = target[part]
        if draw(st.booleans()):
            target[last] = draw(VALUE)
        elif isinstance(target, dict):
            target[draw(WORDS)] = draw(VALUE)
    return document


def read(text: str) -> tuple[tuple[Resource, ...], tuple[Problem, ...]]:
    try:
        return load_manifests(text, relative_to=Path("/srv")), ()
    except ManifestError as error:
        return (), error.problems


def where_rendering_fails(service: InferenceService) -> str:
    try:
        render_service(service)
    except RenderError as error:
        return error.path
    return ""


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(spoilt())
def test_a_spoilt_manifest_is_read_or_explained(manifest: dict[str, Any]) -> None:
    resources, problems = read(json.dumps(manifest))

    assert bool(resources) != bool(problems)
    assert all(problem.message and problem.fix and problem.line for problem in problems)
    for resource in resources:
        if isinstance(resource, InferenceService):
            failing = where_rendering_fails(resource)
            assert failing == "" or failing.startswith("spec.")


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(st.fixed_dictionaries({}, optional=dict.fromkeys(("metadata", "spec"), st.dictionaries(WORDS, VALUE))))
def test_any_pod_template_is_merged_or_explained(template: dict[str, Any]) -> None:
    spec = {"model": {"name": "m"}, "engine": {"type": "sim"}, "decode": {"podTemplate": template}}
    service = InferenceService(
        metadata=ObjectMeta(name="demo"), spec=InferenceServiceSpec.model_validate(spec, by_alias=True)
    )

    failing = where_rendering_fails(service)

    assert failing == "" or failing.startswith("spec.decode.podTemplate")


@settings(deadline=None, max_examples=100)
@given(st.text(max_size=60) | st.text(alphabet="ab:-[]{}&*!|>#'\"\n \t?%@", max_size=60))
def test_any_text_is_explained(text: str) -> None:
    resources, problems = read(text)

    assert resources == ()
    assert problems
