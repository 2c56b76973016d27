"""Every program of ours, as a container's first process, told to stop before it has a word of its own for that."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = (
    "inferplane_router",
    "inferplane_operator",
    "inferplane_planner",
    "inferplane_workers.agent",
    "inferplane_workers.sim",
    "inferplane_kvstore",
)
HELD = """
import os, runpy, signal, sys
from importlib.abc import MetaPathFinder

class Holding(MetaPathFinder):  # what is heavy takes forever
    def find_spec(self, name, path, target=None):
        if name.startswith("inferplane_") and name.split(".")[-1] in {"app", "options"}:
            print("importing", flush=True)
            signal.pause()

sys.meta_path.insert(0, Holding())
sys.argv = [sys.argv[1]]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""
UNSHARE = shutil.which("unshare")

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or UNSHARE is None, reason="a process of number 1 is made by root, with unshare"
)


@pytest.mark.parametrize("program", PROGRAMS)
def test_it_ends_at_once(program: str) -> None:
    assert UNSHARE
    command = [UNSHARE, "--fork", "--pid", "--kill-child", sys.executable, "-c", HELD, program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as outside:
        assert outside.stdout
        assert outside.stdout.readline() == "importing\n"

        os.kill(only_child(outside.pid), signal.SIGTERM)

        assert outside.wait(60) == 128 + signal.SIGTERM


def only_child(pid: int) -> int:
    (child,) = Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii").split()
    return int(child)
