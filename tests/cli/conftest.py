"""Instances that exist as files only, and a way to call the command line on them."""

import socket
from collections.abc import Generator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from inferplane.cli import root
from inferplane.cluster import Choice, Connection
from inferplane.context import Context
from inferplane.kube.testing import FakeCluster
from inferplane.kube.testing_objects import NOW, chat_cluster
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
def cluster() -> FakeCluster:
    """A cluster in which the service `chat` runs."""
    return chat_cluster()


@pytest.fixture
def call_cluster(tmp_path: Path, cluster: FakeCluster) -> Call:
    """Call `inferplane ARGS...` where a kubeconfig leads to `cluster`."""

    def connect(choice: Choice) -> Connection:
        return Connection(cluster, choice.namespace or "default", choice.context or "prod", "https://prod:6443")

    environment = {"XDG_STATE_HOME": str(tmp_path / "state")}
    context = Context(environment=environment, working_dir=tmp_path, connector=connect, wall=lambda: NOW)

    def run(*args: str, stdin: str | None = None) -> Result:
        return CliRunner().invoke(root, list(args), obj=context, input=stdin)

    return run


@pytest.fixture
def demo(context: Context) -> Generator[StateDir]:
    """An instance whose runner is this process, as far as anybody can see."""
    state = make_instance(context, "demo")
    with hold_runner_lock(state):
        yield state


@pytest.fixture
def closed_port() -> Generator[int]:
    """A port of loopback at which nobody listens, kept from others."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]
