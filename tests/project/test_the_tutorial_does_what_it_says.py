"""The tutorial is followed as a reader would, in a shell, and prints what it says."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from doc_blocks import missing, steps, typed
from ended_with_us import ended_with_us
from inferplane_runtime.ports import hold_port

PORT_OF_THE_PAGE = "8000"


@pytest.fixture
def shell(repository: Path, tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment of a reader who has installed everything, and has no instance yet."""
    environment = {
        **os.environ,
        "PATH": f"{repository / '.venv' / 'bin'}:{os.environ['PATH']}",
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }
    down = ["inferplane", "down", "--force"]
    with ended_with_us(down, environment):
        yield environment
        subprocess.run(down, env=environment, capture_output=True, check=False, timeout=60)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_on_a_laptop(repository: Path, tmp_path: Path, shell: dict[str, str]) -> None:
    (tmp_path / "examples").symlink_to(repository / "examples")
    page = (repository / "docs" / "tutorial" / "laptop.md").read_text("utf-8")

    with hold_port() as held:  # the machine's 8000 may be somebody else's
        port = held.number
        for step in steps(page.replace(f":{PORT_OF_THE_PAGE}", f":{port}")):
            commands = step.commands.replace("up -f", f"up --port {port} -f")
            status, printed = typed(commands, tmp_path, shell, timeout_s=120)

            assert status == 0, f"line {step.line} printed:\n{printed}"
            assert missing(step.printed, printed) == [], f"line {step.line} printed:\n{printed}"
