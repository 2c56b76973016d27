"""A run of tests that is killed leaves nothing behind that was meant to outlive its starter."""

import os
import subprocess
import sys
from pathlib import Path

from ended_with_us import ended_with_us

KILLED = """
import os, signal, sys
from ended_with_us import ended_with_us
with ended_with_us(["/bin/sh", "-c", 'echo over > "$0"', sys.argv[1]]):
    os.kill(os.getpid(), signal.SIGKILL)
"""


def fifo(folder: Path) -> Path:
    path = folder / "told"
    os.mkfifo(path)
    return path


def test_the_command_runs_when_its_starter_was_killed(tmp_path: Path, repository: Path) -> None:
    told = fifo(tmp_path)
    environment = {**os.environ, "PYTHONPATH": str(repository / "tools")}
    killed = subprocess.run([sys.executable, "-c", KILLED, str(told)], env=environment, check=False)

    assert killed.returncode == -9
    assert told.read_text() == "over\n"  # waits until somebody has written


def test_it_does_not_run_when_all_is_well(tmp_path: Path) -> None:
    file = tmp_path / "over"
    with ended_with_us(["/bin/sh", "-c", 'echo over > "$0"', str(file)]):
        pass

    assert not file.exists()
