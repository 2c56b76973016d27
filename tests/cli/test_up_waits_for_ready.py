"""`up` on a running instance, whose runner is a thread of this test: what it waits for and when it gives up."""

import subprocess
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from inferplane.context import Context
from inferplane.instances import Instance
from inferplane.progress import Progress
from inferplane.testing import Call, make_instance, status_of
from inferplane.waiting import wait_ended
from inferplane_operator.local.desired import Desired, change_desired, read_desired
from inferplane_operator.local.lock import hold_runner_lock
from inferplane_operator.local.statedir import StateDir, StateError
from inferplane_operator.local.status import (
    AdapterStatus,
    ChildStatus,
    InstancePhase,
    Status,
    WorkerPhase,
    write_status,
)

SIM = """\
apiVersion: inferplane.dev/v1alpha1
kind: InferenceService
metadata: {name: demo}
spec:
  model: {name: m}
  engine: {type: sim}
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "service.yaml"
    path.write_text(SIM)
    return str(path)


@contextmanager
def runner(context: Context, answer: Callable[[StateDir, int], Status | None]) -> Generator[StateDir]:
    """Hold the instance's lock and answer each new generation; None: end at once."""
    state = make_instance(context, "demo")
    held, over = threading.Event(), threading.Event()

    def serve() -> None:
        seen = 1
        with hold_runner_lock(state):
            held.set()
            while not over.wait(0.01):
                try:
                    desired = read_desired(state)
                except StateError:
                    continue
                if desired is None or desired.generation == seen:
                    continue
                seen = desired.generation
                status = answer(state, seen)
                if status is None:
                    return
                write_status(state, status.model_copy(update={"observed_generation": seen}))

    thread = threading.Thread(target=serve)
    thread.start()
    held.wait()
    try:
        yield state
    finally:
        over.set()
        thread.join()


@pytest.mark.parametrize("lost", ["desired", "status", "both"])
def test_up_replaces_what_was_damaged_on_a_running_instance(call: Call, context: Context, file: str, lost: str) -> None:
    with runner(context, lambda _, __: status_of()) as state:
        if lost != "status":
            state.desired.write_text("{{{")
        if lost != "desired":
            state.status.write_text("x")
        result = call("up", "-f", file, "--port", "0")
        desired = read_desired(state)

    assert result.exit_code == 0, result.output
    assert desired is not None
    assert desired.manifests


def test_a_second_up_reconciles_the_running_instance(call: Call, context: Context, file: str) -> None:
    with runner(context, lambda _, __: status_of()) as state:
        result = call("up", "-f", file)
        desired = read_desired(state)

    assert result.exit_code == 0
    assert result.stdout.splitlines()[:2] == ["demo is up to date", "ready: http://127.0.0.1:9"]
    assert result.stdout.splitlines()[2] == (
        "curl http://127.0.0.1:9/v1/chat/completions -H 'content-type: application/json' "
        """-d '{"model": "m", "messages": [{"role": "user", "content": "Hello"}]}'"""
    )
    assert result.stderr == "gateway: Ready\ndecode-0: Ready\n"
    assert desired is not None
    assert desired.manifests[0]["metadata"]["name"] == "demo"


def test_an_old_ready_is_not_taken_for_the_new_one(call: Call, context: Context, file: str) -> None:
    """The status before the change says Ready; the wait ends only with the new generation."""
    progressing = status_of().model_copy(update={"phase": InstancePhase.PROGRESSING, "message": "d-0 is Starting"})
    with runner(context, lambda _, __: progressing):
        result = call("up", "-f", file, "--timeout", "200ms")

    assert result.exit_code == 3
    assert "not ready within 0.2 s: d-0 is Starting" in result.stderr


def test_an_engine_that_keeps_crashing_ends_the_wait_with_its_last_lines(
    call: Call, context: Context, file: str
) -> None:
    def crash(state: StateDir, _: int) -> Status:
        state.log("decode-0-engine").write_text("loading\nCUDA out of memory\n")
        return status_of(phase=WorkerPhase.CRASH_LOOP)

    with runner(context, crash):
        result = call("up", "-f", file)

    assert result.exit_code == 3
    assert "decode-0-engine keeps crashing" in result.stderr
    assert "  | CUDA out of memory" in result.stderr
    assert "correct what the log says and run `inferplane up` again" in result.stderr


def test_an_engine_that_never_gets_ready_ends_the_wait_with_its_last_lines(
    call: Call, context: Context, file: str
) -> None:
    def load(state: StateDir, _: int) -> Status:
        state.log("decode-0-engine").write_text("loading weights 3 %\n")
        return status_of(phase=WorkerPhase.STARTING)

    with runner(context, load):
        result = call("up", "-f", file, "--timeout", "200ms")

    assert result.exit_code == 3
    assert "  | loading weights 3 %" in result.stderr
    assert "wait longer with --timeout" in result.stderr


def test_adapters_are_shown_while_they_are_waited_for(call: Call, context: Context, file: str) -> None:
    adapter = AdapterStatus(name="a", served_name="team/a", failed=True, message="no such folder")
    late = status_of().model_copy(update={"phase": InstancePhase.DEGRADED, "adapters": (adapter,)})
    with runner(context, lambda _, __: late):
        result = call("up", "-f", file, "--timeout", "200ms")

    assert "adapter team/a: NotReady (no such folder)" in result.stderr
    assert "last lines" not in result.stderr


def test_a_router_that_cannot_listen_ends_the_wait(call: Call, context: Context, file: str) -> None:
    router = ChildStatus(
        name="router", state="backoff", restarts=3, crash_looping=True, last_exit="cannot be started: port 80 is in use"
    )
    found = status_of().model_copy(update={"phase": InstancePhase.DEGRADED, "router": router})
    with runner(context, lambda _, __: found):
        result = call("up", "-f", file)

    assert result.exit_code == 3
    assert "router keeps crashing: cannot be started: port 80 is in use" in result.stderr


def test_a_runner_that_dies_ends_the_wait_with_its_last_lines(call: Call, context: Context, file: str) -> None:
    def die(state: StateDir, _: int) -> None:
        state.log("runner").write_text("Traceback: boom\n")

    with runner(context, die):
        result = call("up", "-f", file)

    assert result.exit_code == 1
    assert "the runner has ended" in result.stderr
    assert "  | Traceback: boom" in result.stderr


def test_a_folder_that_runs_another_service_is_left_alone(
    call: Call, context: Context, file: str, tmp_path: Path
) -> None:
    state = make_instance(context, "other")
    with hold_runner_lock(state):
        result = call("up", "-f", file, "--state-dir", str(state.root))

    assert result.exit_code == 2
    assert "runs service 'other'; give 'demo' another --state-dir" in result.stderr
    assert not (tmp_path / "state" / "inferplane" / "demo").exists()


def test_scale_waits_when_asked_to(call: Call, context: Context) -> None:
    with runner(context, lambda _, __: status_of()):
        result = call("scale", "decode", "2", "--wait")

    assert result.exit_code == 0
    assert result.stderr == "gateway: Ready\ndecode-0: Ready\n"


def test_an_instance_that_is_being_stopped_is_waited_for(
    call: Call, context: Context, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A runner that drains takes no change, so a new one is started when it has gone."""
    started: list[str] = []

    def start(state: StateDir, *_: object, **__: object) -> subprocess.Popen[bytes]:
        started.append(state.root.name)
        return subprocess.Popen([sys.executable, "-c", ""])

    waiting = threading.Event()

    def wait_for_the_end(instance: Instance, *, timeout_s: float, progress: Progress) -> bool:
        waiting.set()
        return wait_ended(instance, timeout_s=timeout_s, progress=progress)

    def drain(_: StateDir, __: int) -> None:
        waiting.wait()

    monkeypatch.setattr("inferplane.runner.start", start)
    monkeypatch.setattr("inferplane.commands.up.wait_ended", wait_for_the_end)
    with runner(context, drain) as state:
        change_desired(state, lambda it: (it or Desired(manifests=[])).model_copy(update={"stopped": True}))
        result = call("up", "-f", file, "--detach", "--port", "0")

    assert "it is being stopped; waiting for that" in result.stderr
    assert started == ["demo"]
    assert result.exit_code == 1
    assert "the runner has ended" in result.stderr
