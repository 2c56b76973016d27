"""`status`, `logs`, `scale`, `down` on instances that exist as files."""

import dataclasses
import json
import threading

import yaml
from click.testing import CliRunner

from inferplane.cli import root
from inferplane.context import Context
from inferplane.testing import Call, make_instance
from inferplane_operator.local.desired import read_desired
from inferplane_operator.local.lock import hold_runner_lock
from inferplane_operator.local.statedir import StateDir


def test_without_instances_status_says_how_to_start_one(call: Call) -> None:
    result = call("status")

    assert result.exit_code == 0
    assert "no local instance; start one with `inferplane up -f FILE`" in result.stderr


def test_the_only_instance_is_shown_whole(call: Call, demo: StateDir) -> None:
    del demo
    result = call("status")

    assert result.stdout.splitlines() == [
        "demo: Ready",
        "gateway http://127.0.0.1:9   router 127.0.0.1:3   models m",
        "",
        "POOL     READY   UP-TO-DATE   BOUNDS",
        "decode     1/1            1   1..4",
        "",
        "WORKER     PHASE   RESTARTS   REVISION   ADDRESS",
        "decode-0   Ready          0   abc        127.0.0.1:1",
    ]


def test_a_damaged_status_is_said_with_the_fix_and_hinders_no_other_command(call: Call, demo: StateDir) -> None:
    demo.status.write_text("x")
    result = call("status", "demo")

    assert result.exit_code == 1
    assert "status.json: is missing or damaged" in result.stderr
    assert "`inferplane up -f FILE`" in result.stderr
    assert call("logs", "--name", "demo").exit_code == 0


def test_scale_changes_nothing_where_the_desired_state_is_damaged(call: Call, demo: StateDir) -> None:
    demo.desired.write_text("{{{")
    result = call("scale", "decode", "2")

    assert result.exit_code == 1
    assert "run `inferplane up -f FILE` to replace it" in result.stderr
    assert demo.desired.read_text() == "{{{"


def test_status_comes_as_json_and_yaml(call: Call, demo: StateDir) -> None:
    del demo
    from_json = json.loads(call("status", "-o", "json").stdout)
    from_yaml = yaml.safe_load(call("status", "--output", "yaml").stdout)

    assert from_json == from_yaml
    assert from_json["workers"][0]["phase"] == "Ready"


def test_several_instances_are_listed_and_must_be_named(call: Call, context: Context, demo: StateDir) -> None:
    del demo
    other = make_instance(context, "other")
    with hold_runner_lock(other):
        listed = call("status")
        result = call("scale", "decode", "2")

        assert [line.split()[0] for line in listed.stdout.splitlines()] == ["NAME", "demo", "other"]
        assert result.exit_code == 2
        assert (
            "more than one local instance: give the NAME of one (see --help for where); there are: demo, other"
            in result.stderr
        )
        assert call("status", "other").stdout.startswith("other: Ready")
        assert call("scale", "decode", "2", "--name", "other").exit_code == 0


def test_an_instance_without_a_runner_is_never_called_ready(call: Call, context: Context) -> None:
    make_instance(context, "demo")
    result = call("status", "demo")

    assert result.stdout.startswith("demo: Stopped (the runner has ended unexpectedly")
    assert "Ready" not in result.stdout


def test_an_unknown_name_lists_the_known_ones(call: Call, demo: StateDir) -> None:
    del demo
    result = call("status", "nobody")

    assert result.exit_code == 2
    assert "no local instance is called 'nobody'; there are: demo" in result.stderr


def test_scale_writes_the_wish_and_keeps_the_manifest(call: Call, demo: StateDir) -> None:
    result = call("scale", "decode", "3")
    desired = read_desired(demo)

    assert result.stdout == "decode scaled from 1 to 3\n"
    assert desired is not None
    assert desired.replicas == {"decode": 3}
    assert desired.generation == 2


def test_scale_stays_within_the_manifests_bounds(call: Call, demo: StateDir) -> None:
    more, less, unknown = call("scale", "decode", "5"), call("scale", "decode", "0"), call("scale", "prefill", "1")

    assert (more.exit_code, less.exit_code, unknown.exit_code) == (2, 2, 2)
    assert "5 is more than spec.decode.maxReplicas (4); raise it in the file" in more.stderr
    assert "0 is less than spec.decode.minReplicas (1)" in less.stderr
    assert "demo has no pool 'prefill'; there are: decode" in unknown.stderr
    desired = read_desired(demo)
    assert desired is not None
    assert desired.replicas == {}


def test_scale_needs_a_running_instance(call: Call, context: Context) -> None:
    make_instance(context, "demo")
    result = call("scale", "decode", "2")

    assert result.exit_code == 1
    assert "demo is not running" in result.stderr


def test_logs_of_a_worker_are_those_of_agent_and_engine(call: Call, demo: StateDir) -> None:
    demo.log("decode-0-agent").write_text("a1\na2\n")
    demo.log("decode-0-engine").write_text("e1\n")
    demo.log("router").write_text("r1\nr2\nr3\n")

    assert call("logs", "decode-0").stdout == "[decode-0-agent] a1\n[decode-0-agent] a2\n[decode-0-engine] e1\n"
    assert call("logs", "router").stdout == "r1\nr2\nr3\n"
    assert call("logs", "router", "--tail", "2").stdout == "r2\nr3\n"
    assert call("logs", "router", "--tail", "0").stdout == ""
    assert "r3" in call("logs").stdout
    unknown = call("logs", "decode-9")
    assert unknown.exit_code == 2
    assert "there are: decode-0-agent, decode-0-engine, router" in unknown.stderr


def test_down_asks_and_waits_for_the_runner_to_end(call: Call, context: Context) -> None:
    state = make_instance(context, "demo")
    asked, held = threading.Event(), threading.Event()

    def runner() -> None:
        with hold_runner_lock(state):
            held.set()
            while not (desired := read_desired(state)) or not desired.stopped:
                asked.wait(0.01)

    thread = threading.Thread(target=runner)
    thread.start()
    held.wait()
    result = call("down")
    thread.join()

    assert result.exit_code == 0
    assert result.stdout == "demo is down\n"


def test_down_that_takes_too_long_is_not_ready_in_time(call: Call, demo: StateDir) -> None:
    del demo
    result = call("down", "--timeout", "10ms")

    assert result.exit_code == 3
    assert "still drains after 0.01 s" in result.stderr


def test_down_of_what_does_not_run_is_done(call: Call, context: Context) -> None:
    make_instance(context, "demo")
    result = call("down")

    assert result.exit_code == 0
    assert result.stdout == "demo is not running\n"


def test_on_a_terminal_tables_are_drawn_and_hold_the_same(context: Context, demo: StateDir) -> None:
    del demo
    terminal = dataclasses.replace(context, terminal=True, colour=True)
    result = CliRunner().invoke(root, ["status"], obj=terminal, color=True)

    assert result.exit_code == 0
    assert "decode-0" in result.stdout
    assert "127.0.0.1:1" in result.stdout
