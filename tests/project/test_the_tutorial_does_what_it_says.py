"""The tutorial is followed as a reader would, in a shell, and prints what it says."""

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from doc_blocks import missing, steps

PORT_OF_THE_PAGE = "8000"


@pytest.fixture
def shell(repository: Path, tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment of a reader who has installed everything, and has no instance yet."""
    environment = {
        **os.environ,
        "PATH": f"{repository / '.venv' / 'bin'}:{os.environ['PATH']}",
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }
    yield environment
    subprocess.run(["inferplane", "down", "--force"], env=environment, capture_output=True, check=False, timeout=60)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_on_a_laptop(repository: Path, tmp_path: Path, shell: dict[str, str]) -> None:
    (tmp_path / "examples").symlink_to(repository / "examples")
    page = (repository / "docs" / "tutorial" / "laptop.md").read_text("utf-8")
    port = _free_port()

    for step in steps(page.replace(f":{PORT_OF_THE_PAGE}", f":{port}")):
        done = _typed(step.commands.replace("up -f", f"up --port {port} -f"), tmp_path, shell)

        assert done.returncode == 0, f"line {step.line}: {done.stdout}{done.stderr}"
        assert missing(step.printed, done.stdout + done.stderr) == [], (
            f"line {step.line} printed:\n{done.stdout}{done.stderr}"
        )


def _free_port() -> int:
    """Return a port that was free a moment ago: the machine's 8000 may be somebody else's."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _typed(commands: str, folder: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    typed = subprocess.Popen(
        ["bash", "-euo", "pipefail", "-c", commands],
        cwd=folder,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        out, err = typed.communicate(timeout=120)
    except subprocess.TimeoutExpired:
        os.killpg(typed.pid, signal.SIGKILL)
        raise
    return subprocess.CompletedProcess(commands, typed.returncode, out, err)
