"""The service that README.md shows is an excerpt of an example, and a valid service by itself."""

import re
from pathlib import Path
from typing import Any, cast

import yaml

from inferplane_api.v1alpha1.manifests import load_manifests

REPOSITORY = Path(__file__).parents[2]
EXAMPLE = REPOSITORY / "examples" / "smollm2.yaml"


def shown() -> str:
    found = re.search(r"```yaml\n(.*?)```", (REPOSITORY / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    return found[1]


def leaves(value: Any, *path: str) -> dict[tuple[str, ...], Any]:
    if not isinstance(value, dict):
        return {path: value}
    fields = cast("dict[str, Any]", value)
    return {leaf: found for name, part in fields.items() for leaf, found in leaves(part, *path, name).items()}


def test_it_says_what_the_example_says() -> None:
    excerpt = leaves(yaml.safe_load(shown()))
    whole = leaves(yaml.safe_load(EXAMPLE.read_text(encoding="utf-8")))

    assert excerpt == {path: whole.get(path) for path in excerpt}


def test_it_is_a_valid_service() -> None:
    assert [resource.metadata.name for resource in load_manifests(shown(), relative_to=EXAMPLE.parent)] == ["smollm2"]
