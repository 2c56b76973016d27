"""Instances that exist as files only, and a way to call the command line on them."""

from collections.abc import Generator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from inferplane.cli import root
from inferplane.context import Context
from inferplane.testing import Call, make_instance
from inferplane_operator.local.lock import hold_runner_lock
from inferplane_operator.local.statedir import StateDir


@pytest.fixture
def context(tmp_path: Path) -> Context:
    return Context(environment={"XDG_STATE_HOME": str(tmp_path / "state")}, working_dir=tmp_path)


@pytest.fixture
def call(context: Context) -> Call:
    """Call `inferplane ARGS...`."""

    def run(*args: str, stdin: str | None = None) -> Result:
        return CliRunner().invoke(root, list(args), obj=context, input=stdin)

    return run


@pytest.fixture
def demo(context: Context) -> Generator[StateDir]:
    """An instance whose runner is this process, as far as anybody can see."""
    state = make_instance(context, "demo")
    with hold_runner_lock(state):
        yield state
