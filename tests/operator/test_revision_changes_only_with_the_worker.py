"""A revision is what a worker is made of: what a worker does not know restarts nothing."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inferplane_api.v1alpha1 import InferenceService, LoRAAdapter
from inferplane_api.v1alpha1.manifests import parse_resource
from inferplane_operator.render import RenderOptions, render_service


def service(**spec: Any) -> InferenceService:
    manifest = {
        "apiVersion": "inferplane.dev/v1alpha1",
        "kind": "InferenceService",
        "metadata": {"name": "demo"},
        "spec": {"model": {"name": "m"}, "engine": {"type": "sim"}, "prefill": {}, "decode": {}, **spec},
    }
    parsed = parse_resource(manifest)
    assert isinstance(parsed, InferenceService)
    return parsed


BASE = render_service(service()).revision


@pytest.mark.parametrize(
    "spec",
    [
        {"slo": {"ttft": "1s", "percentile": 95}},
        {"routing": {"policy": "round-robin"}},
        {"scaling": {"mode": "slo"}},
        {"budget": {"maxDevices": 8}},
        {"rollout": {"maxSurge": 3}},
        {"gateway": {"processes": 2}},
        {"mode": "disaggregated"},
        {"decode": {"replicas": 3, "minReplicas": 2, "maxReplicas": 5}},
        {"engine": {"type": "sim", "dtype": "auto"}},
    ],
    ids=lambda spec: next(iter(spec)),
)
def test_what_a_worker_does_not_know_changes_nothing(spec: dict[str, Any]) -> None:
    assert render_service(service(**spec)).revision == BASE


@pytest.mark.parametrize(
    "spec",
    [
        {"model": {"name": "other"}},
        {"engine": {"type": "sim", "args": ["--max-num-queued-reqs", "5"]}},
        {"engine": {"type": "sim", "env": {"A": "1"}}},
        {"prefill": {"engine": {"maxNumSeqs": 4}}},
        {"decode": {"podTemplate": {"spec": {"nodeSelector": {"a": "b"}}}}},
        {"decode": {"accelerator": "h100"}},
        {"drainTimeout": "10s"},
        {"kvStore": {"name": "shared"}},
    ],
    ids=["model", "args", "env", "prefill", "template", "accelerator", "drain", "store"],
)
def test_what_a_worker_is_made_of_changes_all_pools(spec: dict[str, Any]) -> None:
    rendered = render_service(service(**spec))

    assert rendered.revision != BASE
    assert {pool.revision for pool in rendered.pools} == {rendered.revision}


def test_a_release_that_renders_otherwise_changes_nothing() -> None:
    assert render_service(service(), options=RenderOptions(agent_image="new")).revision == BASE


def test_the_resolved_commit_and_adapters_count() -> None:
    parsed = parse_resource(
        {
            "apiVersion": "inferplane.dev/v1alpha1",
            "kind": "LoRAAdapter",
            "metadata": {"name": "a"},
            "spec": {"service": "demo", "source": {"path": "/a"}},
        }
    )
    assert isinstance(parsed, LoRAAdapter)

    revisions = {
        BASE,
        render_service(service(), model_revision="c0ffee").revision,
        render_service(service(), adapters=[parsed]).revision,
    }

    assert len(revisions) == 3


@settings(deadline=None, max_examples=25)
@given(st.permutations(["A", "B", "C", "D"]))
def test_the_order_of_keys_does_not_matter(order: list[str]) -> None:
    env = dict.fromkeys(order, "1")

    assert render_service(service(engine={"type": "sim", "env": env})).revision == _WITH_ENV


_WITH_ENV = render_service(service(engine={"type": "sim", "env": dict.fromkeys("ABCD", "1")})).revision


def test_the_revision_is_the_same_in_every_process() -> None:
    assert BASE == "04256ffc32"
