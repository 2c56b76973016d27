"""This machine or a cluster, and names that a shell completes from either."""

import dataclasses
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from inferplane.cli import root
from inferplane.cluster import Choice, Connection
from inferplane.context import Context
from inferplane.kube.testing import FakeCluster
from inferplane.testing import Call, make_instance
from inferplane_operator.local.lock import hold_runner_lock
from inferplane_operator.local.statedir import StateDir


@pytest.fixture
def both(context: Context, cluster: FakeCluster) -> Context:
    """Where a kubeconfig leads to `cluster` and local instances may run."""

    def connect(choice: Choice) -> Connection:
        return Connection(cluster, choice.namespace or "default")

    return dataclasses.replace(context, connector=connect)


def first_line(context: Context, *args: str) -> str:
    result = CliRunner().invoke(root, list(args), obj=context)
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()[0]


def test_a_running_instance_of_that_name_is_meant(both: Context, demo: StateDir) -> None:
    del demo

    assert first_line(both, "status", "demo") == "demo: Ready"
    assert first_line(both, "status") == "demo: Ready"


def test_another_name_means_the_cluster(both: Context, demo: StateDir) -> None:
    del demo

    assert first_line(both, "status", "chat") == "default/chat: Ready"


def test_an_option_that_names_a_cluster_means_the_cluster(both: Context) -> None:
    with hold_runner_lock(make_instance(both, "chat")):
        assert first_line(both, "status", "chat", "-n", "default") == "default/chat: Ready"
        assert first_line(both, "status", "chat", "--context", "prod") == "default/chat: Ready"
        assert first_line(both, "status", "chat") == "chat: Ready"


def test_an_instance_that_is_stopped_is_seen_with_local_alone(both: Context) -> None:
    make_instance(both, "chat")

    assert first_line(both, "status", "chat") == "default/chat: Ready"
    assert first_line(both, "status", "chat", "--local").startswith("chat: Stopped")


def test_without_a_kubeconfig_this_machine_is_all_there_is(call: Call) -> None:
    result = call("status", "chat")

    assert result.exit_code == 2
    assert "no local instance is called 'chat'" in result.stderr


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["status", "--local", "-n", "x"], "--local means this machine, --context, -n and --kubeconfig a cluster"),
        (["logs", "--state-dir", "x", "--context", "y"], "--state-dir means this machine"),
        (["status", "-A", "--local"], "-A lists services of a cluster; leave out --local and --state-dir"),
        (["status", "-A", "chat"], "-A lists services of all namespaces; to see one, give its namespace with -n"),
    ],
    ids=["local and namespace", "folder and context", "all and local", "all and one"],
)
def test_contradicting_options_are_wrong_usage(both: Context, args: list[str], expected: str) -> None:
    result = CliRunner().invoke(root, args, obj=both)

    assert result.exit_code == 2
    assert expected in result.stderr


def test_a_command_for_clusters_needs_a_kubeconfig(call: Call) -> None:
    for args in (["preflight"], ["rollback", "chat"], ["freeze", "chat"], ["unfreeze", "chat"]):
        result = call(*args)

        assert result.exit_code == 2
        assert "there is no kubeconfig" in result.stderr


def completions(context: Context, args: list[str], incomplete: str) -> list[str]:
    found = ShellComplete(root, {"obj": context}, "inferplane", "_X").get_completions(args, incomplete)
    return [item.value for item in found if item.type == "plain"]


def test_names_of_instances_and_services_are_completed(both: Context) -> None:
    make_instance(both, "demo")

    assert completions(both, ["status"], "") == ["chat", "demo"]
    assert completions(both, ["status"], "d") == ["demo"]
    assert completions(both, ["status", "-n", "default"], "") == ["chat"]
    assert completions(both, ["status", "--local"], "") == ["demo"]
    assert completions(both, ["freeze"], "c") == ["chat"]
    assert completions(both, ["scale"], "chat") == ["chat/decode", "chat/prefill"]
    assert completions(both, ["scale"], "p") == ["prefill"]


def test_completion_is_silent_where_nothing_can_be_asked(
    both: Context, cluster: FakeCluster, context: Context, tmp_path: Path
) -> None:
    cluster.forbidden.add(("list", "inferenceservices"))
    broken = dataclasses.replace(context, environment={**context.environment, "KUBECONFIG": str(tmp_path / "absent")})

    assert completions(both, ["freeze"], "") == []
    assert completions(context, ["freeze"], "") == []
    assert completions(broken, ["freeze"], "") == []
