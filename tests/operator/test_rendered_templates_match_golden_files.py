"""What the examples render to, kept as files so that a change of rendering is seen in review.

Regenerate: INFERPLANE_REGENERATE_GOLDEN=1 .venv/bin/python -m pytest tests/operator -k golden
"""

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from inferplane_api.v1alpha1 import InferenceService, LoRAAdapter, ModelRoute, Resource
from inferplane_api.v1alpha1.manifests import dump_resource, load_manifests, parse_resource
from inferplane_operator.render import render_service

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))
GOLDEN = Path(__file__).parent / "golden"
FOLDER = Path("/srv/examples")
"""Where examples are taken to lie, so that golden files do not depend on the clone."""


def resources(example: Path) -> tuple[Resource, ...]:
    return load_manifests(example.read_text(), relative_to=FOLDER)


def rendered(example: Path) -> list[dict[str, Any]]:
    found = resources(example)
    adapters = [resource for resource in found if isinstance(resource, LoRAAdapter)]
    routes = [resource for resource in found if isinstance(resource, ModelRoute)]
    services = [
        render_service(resource, adapters=adapters, routes=routes)
        for resource in found
        if isinstance(resource, InferenceService)
    ]
    values = [
        {
            "service": service.name,
            "catalogue": service.catalogue_service.model_dump(mode="json", by_alias=True),
            "routes": [route.model_dump(mode="json", by_alias=True) for route in service.routes],
            "pools": [asdict(pool) for pool in service.pools],
        }
        for service in services
    ]
    plain: list[dict[str, Any]] = json.loads(json.dumps(values))
    return plain


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_is_valid_and_survives_the_wire(example: Path) -> None:
    found = resources(example)

    assert found
    assert [parse_resource(dump_resource(resource)) for resource in found] == list(found)


@pytest.mark.parametrize("example", [path for path in EXAMPLES if path.stem != "routes"], ids=lambda path: path.stem)
def test_what_is_rendered_is_what_was_reviewed(example: Path) -> None:
    golden = GOLDEN / example.name
    found = rendered(example)
    if os.environ.get("INFERPLANE_REGENERATE_GOLDEN"):
        golden.write_text(cast("Any", yaml).safe_dump_all(found, sort_keys=False, width=120))

    expected = list(yaml.safe_load_all(golden.read_text()))

    assert expected == found


def test_no_golden_file_is_left_over() -> None:
    assert {path.name for path in GOLDEN.glob("*.yaml")} <= {path.name for path in EXAMPLES}
