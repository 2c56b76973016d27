"""The objects of two examples, kept as files so that a change is seen in review; Pod templates have their own.

Regenerate: INFERPLANE_REGENERATE_GOLDEN=1 .venv/bin/python -m pytest tests/operator_reconcile -k golden
"""

import json
import os
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from inferplane_api.v1alpha1 import InferenceService
from inferplane_api.v1alpha1.manifests import load_manifests, parse_resource
from inferplane_operator.reconcile.testing import FakeCluster
from inferplane_operator.render import render_service
from inferplane_operator.render.objects_standalone import pool_objects, worker_objects

EXAMPLES = Path(__file__).parents[2] / "examples"
GOLDEN = Path(__file__).parent / "golden"
NAMES = ["sim", "aggregated"]


def service(name: str) -> InferenceService:
    (found,) = load_manifests((EXAMPLES / f"{name}.yaml").read_text(), relative_to=Path("/srv/examples"))
    assert isinstance(found, InferenceService)
    return found


def without_templates(made: dict[str, Any]) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(json.dumps(made))
    for key in ("podTemplate", "template"):
        if key in plain["spec"]:
            plain["spec"][key] = "as in tests/operator/golden"
    return plain


@pytest.mark.parametrize("name", NAMES)
def test_what_is_made_is_what_was_reviewed(name: str) -> None:
    parsed = service(name)
    rendered = render_service(parsed)
    made = [*pool_objects(parsed, rendered), *worker_objects(parsed, rendered)]
    found = [without_templates(each) for each in made]
    golden = GOLDEN / f"{name}.yaml"
    if os.environ.get("INFERPLANE_REGENERATE_GOLDEN"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(cast("Any", yaml).safe_dump_all(found, sort_keys=False, width=120))

    assert list(yaml.safe_load_all(golden.read_text())) == found


@pytest.mark.parametrize("name", NAMES)
def test_pools_are_what_their_type_says(name: str) -> None:
    parsed = service(name)

    for pool in pool_objects(parsed, render_service(parsed)):
        assert parse_resource(pool).kind == pool["kind"]


def test_what_is_printed_is_what_an_operator_makes() -> None:
    parsed = service("sim")
    cluster = FakeCluster({**json.loads(json.dumps(_raw("sim")))})
    cluster.settle()

    for printed in worker_objects(parsed, render_service(parsed)):
        made = cluster.objects[printed["kind"], printed["metadata"]["name"]]
        assert made["spec"] == printed["spec"]
        assert made["metadata"]["labels"] == printed["metadata"]["labels"]


def _raw(name: str) -> dict[str, Any]:
    (found,) = yaml.safe_load_all((EXAMPLES / f"{name}.yaml").read_text())
    return cast("dict[str, Any]", found)
