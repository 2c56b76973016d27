"""The tutorial for a cluster, typed as its reader does, against the installed chart."""

from pathlib import Path

import pytest

from doc_blocks import missing, steps, typed
from e2e.cluster.places import REPOSITORY
from e2e.support.cluster import Cluster

PAGE = REPOSITORY / "docs" / "tutorial" / "cluster.md"
LONGEST_STEP_S = 300


@pytest.mark.usefixtures("release")
@pytest.mark.timeout(2 * LONGEST_STEP_S, func_only=True)
def test_every_step_prints_what_the_page_says(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(REPOSITORY / "examples")
    given = cluster.access.environment
    environment = {
        **given,
        "PATH": f"{REPOSITORY / '.venv' / 'bin'}:{given['PATH']}",
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }
    try:
        for step in steps(PAGE.read_text("utf-8")):
            status, printed = typed(step.commands, tmp_path, environment, LONGEST_STEP_S)

            assert status == 0, f"line {step.line} printed:\n{printed}"
            assert missing(step.printed, printed) == [], f"line {step.line} printed:\n{printed}"
    finally:
        cluster.kubectl("delete", "inferenceservices.inferplane.dev", "sim", "--ignore-not-found", "--wait=false")
