"""The objects of two examples, kept as files so that a change is seen in review; Pod templates have their own.

Regenerate: INFERPLANE_REGENERATE_GOLDEN=1 .venv/bin/python -m pytest tests/operator_reconcile -k golden
"""

import json
import os
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from inferplane_api.v1alpha1.manifests import parse_resource
from inferplane_operator.reconcile.testing import FakeCluster

EXAMPLES = Path(__file__).parents[2] / "examples"
GOLDEN = Path(__file__).parent / "golden"
NAMES = ["sim", "aggregated"]
KINDS = {"PrefillPool", "DecodePool", "Deployment", "Service", "PodDisruptionBudget", "ControllerRevision"}


def made(name: str) -> list[dict[str, Any]]:
    (example,) = yaml.safe_load_all((EXAMPLES / f"{name}.yaml").read_text())
    cluster = FakeCluster(cast("dict[str, Any]", example))
    cluster.settle()
    return [found for (kind, _), found in sorted(cluster.objects.items()) if kind in KINDS]


def reviewed(found: dict[str, Any]) -> dict[str, Any]:
    """Leave out what an API server sets, and templates."""
    plain: dict[str, Any] = json.loads(json.dumps(found))
    plain.pop("status", None)
    for key in ("uid", "generation", "creationTimestamp"):
        plain["metadata"].pop(key, None)
    for owner in plain["metadata"]["ownerReferences"]:
        owner["uid"] = "its uid"
    for key in ("podTemplate", "template"):
        if key in plain.get("spec", {}):
            plain["spec"][key] = "as in tests/operator/golden"
    if "data" in plain:
        plain["data"]["templates"] = dict.fromkeys(plain["data"]["templates"], "as in tests/operator/golden")
    return plain


@pytest.mark.parametrize("name", NAMES)
def test_what_is_made_is_what_was_reviewed(name: str) -> None:
    found = [reviewed(each) for each in made(name)]
    golden = GOLDEN / f"{name}.yaml"
    if os.environ.get("INFERPLANE_REGENERATE_GOLDEN"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(cast("Any", yaml).safe_dump_all(found, sort_keys=False, width=120))

    assert list(yaml.safe_load_all(golden.read_text())) == found


@pytest.mark.parametrize("name", NAMES)
def test_pools_are_what_their_type_says(name: str) -> None:
    pools = [found for found in made(name) if found["kind"].endswith("Pool")]

    assert [parse_resource(pool).kind for pool in pools] == [pool["kind"] for pool in pools]
    assert pools
