"""Each component's own image is built as `make image` builds it, and every program that it is for starts in it.

The other tests use the one image that holds everything, which would hide a dependency that one of the four lacks.  Four
builds take minutes, so these tests run where INFERPLANE_E2E_EACH_IMAGE is set.
"""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Final

import pytest

from e2e.cluster.binaries import build_missing
from e2e.cluster.packages import NEEDED, NEEDED_FOR_IMAGES, install_missing
from e2e.cluster.places import REPOSITORY
from e2e.images.base import BASE, ensure_base, root_archive
from e2e.images.builder import Builder, builder
from e2e.support.figures import note

PROGRAMS: Final[Mapping[str, tuple[str, ...]]] = {
    "router": ("inferplane_router",),
    "worker": ("inferplane_workers.agent", "inferplane_workers.fetch", "inferplane_workers.sim", "inferplane_kvstore"),
    "operator": ("inferplane_operator", "inferplane_operator.crds"),
    "planner": ("inferplane_planner",),
}
pytestmark = [
    pytest.mark.skipif(
        not os.environ.get("INFERPLANE_E2E_EACH_IMAGE"), reason="INFERPLANE_E2E_EACH_IMAGE is not set: minutes"
    ),
    pytest.mark.timeout(900, func_only=True),
]


@pytest.fixture(scope="module")
def docker() -> Iterator[Builder]:
    install_missing({**NEEDED, **NEEDED_FOR_IMAGES})
    build_missing()
    root_archive()
    with builder() as running:
        ensure_base(running)
        yield running


@pytest.mark.parametrize("component", PROGRAMS)
def test_every_program_of_a_component_starts_in_its_image(docker: Builder, component: str) -> None:
    image = f"localhost/inferplane-{component}:alone"
    subprocess.run([sys.executable, REPOSITORY / "tools/image_context.py", component], check=True)
    docker.build(REPOSITORY, image, {"BASE_IMAGE": BASE, "COMPONENT": component, "VERSION": "alone"})
    note(f"image of {component}, MiB", docker.size(image) / (1 << 20))

    for program in PROGRAMS[component]:
        assert docker.run(image, "python", "-m", program, "--help").startswith("usage: ")
