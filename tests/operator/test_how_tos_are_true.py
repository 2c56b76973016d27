"""What the pages on hardware and weights show can be read and rendered."""

import re
from pathlib import Path

import pytest

from inferplane_api.v1alpha1 import InferenceService
from inferplane_api.v1alpha1.manifests import load_manifests
from inferplane_operator.render import RenderOptions, render_service
from inferplane_operator.render.accelerators import built_in_classes, read_accelerators

PAGES = [Path(__file__).parents[2] / "docs" / "how-to" / name for name in ("hardware.md", "weights.md")]
BLOCKS = [
    (page.stem, block)
    for page in PAGES
    for block in re.findall(r"```yaml\n(.*?)```", page.read_text(), flags=re.DOTALL)
]
CLASSES = [block for _, block in BLOCKS if block.startswith("classes:")]
SERVICES = [block for _, block in BLOCKS if "kind: InferenceService" in block]


@pytest.mark.parametrize("text", CLASSES)
def test_classes_are_read(text: str) -> None:
    assert set(read_accelerators(text).classes) > set(built_in_classes()) - {"h100"}


@pytest.mark.parametrize("text", SERVICES)
def test_services_are_rendered(text: str) -> None:
    (service,) = load_manifests(text)
    assert isinstance(service, InferenceService)

    assert render_service(service, options=RenderOptions()).pools


def test_every_built_in_class_is_named() -> None:
    text = PAGES[0].read_text()

    assert [name for name in built_in_classes() if f"`{name}`" not in text] == []


def test_there_is_something_to_read() -> None:
    assert (len(CLASSES), len(SERVICES)) == (1, 2)
