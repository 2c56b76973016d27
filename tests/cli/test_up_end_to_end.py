"""The whole of local mode with real processes and the simulated engine, called as a user calls it."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from ended_with_us import ended_with_us
from inferplane_operator.local.processes import INSTANCE_MARKER
from inferplane_operator.local.statedir import StateDir
from inferplane_operator.local.status import InstancePhase, Status, WorkerPhase, read_status

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(240),  # a dozen processes start, each with seconds of imports, on whatever cores there are
    pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc"),
]

MANIFEST = """\
apiVersion: inferplane.dev/v1alpha1
kind: InferenceService
metadata: {{name: {name}}}
spec:
  model: {{name: inferplane/sim, servedNames: [sim]}}
  engine: {{type: sim, blockSize: 16, maxModelLen: 8192, sim: {{profile: cpu-test, speed: 20, seed: {seed}}}}}
  mode: {mode}
  decode: {{replicas: 1, minReplicas: 0, maxReplicas: 3}}
  routing: {{exposeHeaders: true}}
  drainTimeout: 10s
"""
PREFILL = "  prefill: {replicas: 1, maxReplicas: 2}\n"
LIMIT_S = 110.0


@dataclass(frozen=True)
class Local:
    """An instance and the command line around it."""

    folder: Path

    @property
    def state(self) -> StateDir:
        return StateDir(self.folder / "state")

    def call(self, *args: str, code: int = 0) -> str:
        """Run `inferplane ARGS... --state-dir DIR` and return its output."""
        done = subprocess.run(self.argv(*args), capture_output=True, text=True, check=False, timeout=LIMIT_S)
        assert done.returncode == code, f"{args}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def argv(self, *args: str) -> list[str]:
        return [sys.executable, "-m", "inferplane", *args, "--state-dir", str(self.state.root)]

    def manifest(self, *, seed: int = 7, prefill: bool = True) -> str:
        file = self.folder / "sim.yaml"
        mode = "disaggregated" if prefill else "aggregated"
        text = MANIFEST.format(name=self.folder.name, seed=seed, mode=mode)
        file.write_text(text + PREFILL if prefill else text)
        return str(file)

    def up(self, *, seed: int = 7) -> str:
        return self.call("up", "-f", self.manifest(seed=seed), "--detach", "--port", "0", "--timeout", "100s")

    def status(self) -> Status:
        found = read_status(self.state)
        assert found is not None
        return found

    def until(self, condition: Callable[[Status], bool]) -> Status:
        """Wait for the runner to say so; the test's time limit is the deadline."""
        while not condition(status := self.status()):
            time.sleep(0.05)
        return status

    def processes(self) -> dict[int, str]:
        """Return every process that carries this instance's mark, whoever started it."""
        mark = f"{INSTANCE_MARKER}={self.state.root}".encode()
        found: dict[int, str] = {}
        for entry in Path("/proc").iterdir():
            if not entry.name.isdecimal():
                continue
            try:
                if mark in (entry / "environ").read_bytes().split(b"\0"):
                    found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
        return found

    def gone(self) -> bool:
        while self.processes():
            time.sleep(0.05)
        return True

    def chat(self, text: str, **fields: Any) -> httpx.Response:
        body = {"model": "sim", "messages": [{"role": "user", "content": text}], "max_tokens": 8, **fields}
        return httpx.post(f"{self.status().url}/v1/chat/completions", json=body, timeout=LIMIT_S, trust_env=False)

    @contextmanager
    def streaming(self, text: str, **fields: Any) -> Generator[httpx.Response]:
        body = {"model": "sim", "messages": [{"role": "user", "content": text}], **fields}
        url = f"{self.status().url}/v1/chat/completions"
        with (
            httpx.Client(timeout=LIMIT_S, trust_env=False) as client,
            client.stream("POST", url, json=body) as answer,
        ):
            assert answer.status_code == 200, answer.read()
            yield answer

    def until_refused(self) -> httpx.Response:
        """Ask until nobody is there to answer; the test's time limit is the deadline."""
        while (answer := self.chat("anybody?")).status_code == 200:
            time.sleep(0.05)
        return answer


def engine_pid(status: Status, name: str) -> int:
    worker = next(worker for worker in status.workers if worker.name == name)
    assert worker.engine is not None
    assert worker.engine.pid is not None
    return worker.engine.pid


def kill_what_is_left(local: Local) -> None:
    for pid in local.processes():
        os.kill(pid, signal.SIGKILL)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    """One instance for the tests of this file; each leaves it running with its first manifest's sizes."""
    found = Local(tmp_path_factory.mktemp("shared", numbered=False))
    with ended_with_us(found.argv("down", "--force")):
        try:
            found.up()
            yield found
            said = found.call("down")
            left = found.processes()
        finally:
            kill_what_is_left(found)
    assert said == f"{found.folder.name} is down\n"
    assert left == {}


def test_it_answers_and_explains_and_is_found_healthy(shared: Local) -> None:
    said = shared.up()
    url = shared.status().url
    assert said.splitlines()[1] == f"ready: {url}"
    answer = shared.chat("Tell me about the sea. " * 20)
    assert answer.status_code == 200, answer.text
    assert answer.headers["x-inferplane-worker"] == "decode-0"
    assert answer.headers["x-inferplane-prefill-worker"] == "prefill-0"

    record = json.loads(shared.call("explain", answer.headers["x-request-id"], "-o", "json"))

    assert [candidate["decodeWorker"] for candidate in record["candidates"] if candidate["chosen"]] == ["decode-0"]
    assert "PROBLEM" not in shared.call("diagnose")
    assert json.loads(shared.call("status", "-o", "json"))["phase"] == "Ready"


def test_scaling_starts_and_drains_workers(shared: Local) -> None:
    shared.call("scale", "decode", "2", "--wait")
    assert [worker.name for worker in shared.status().workers] == ["decode-0", "decode-1", "prefill-0"]

    shared.call("scale", "decode", "1", "--wait")

    assert [worker.name for worker in shared.status().workers] == ["decode-0", "prefill-0"]
    assert shared.chat("still there?").status_code == 200


def test_at_zero_workers_answers_are_finished_and_clients_come_back_later(shared: Local) -> None:
    """What runs ends in full; what comes is told when to come again, and is served once there are workers again."""
    long: dict[str, Any] = {"max_tokens": 3000, "ignore_eos": True, "stream": True}
    with shared.streaming("count", **long) as answer, ThreadPoolExecutor() as pool:
        lines = (line for line in answer.iter_lines() if line.startswith("data: "))
        next(lines)
        shared.call("scale", "decode", "0")
        refused = shared.until_refused()
        assert refused.status_code == 503
        assert int(refused.headers["retry-after"]) >= 1
        assert refused.json()["error"]["message"]

        client = openai.OpenAI(base_url=f"{shared.status().url}/v1", api_key="none", max_retries=100)
        waiting = pool.submit(
            lambda: client.chat.completions.create(
                model="sim", messages=[{"role": "user", "content": "hold"}], max_tokens=8
            )
        )
        *deltas, last, done = lines
        shared.until(lambda it: [worker.name for worker in it.workers] == ["prefill-0"])
        assert shared.status().phase is not InstancePhase.DEGRADED
        assert not waiting.done()
        shared.call("scale", "decode", "1", "--wait")
        held = waiting.result(timeout=LIMIT_S)

    assert done == "data: [DONE]"
    assert json.loads(last.removeprefix("data: "))["choices"][0]["finish_reason"] == "length"
    assert len(deltas) + 2 >= long["max_tokens"]
    assert held.usage is not None
    assert held.usage.completion_tokens == 8


def test_a_killed_engine_comes_back_and_serves_again(shared: Local) -> None:
    os.kill(engine_pid(shared.status(), "decode-0"), signal.SIGKILL)
    status = shared.until(
        lambda it: it.phase is InstancePhase.READY and any(w.engine and w.engine.restarts for w in it.workers)
    )

    worker = next(worker for worker in status.workers if worker.name == "decode-0")
    assert worker.engine is not None
    assert worker.engine.last_exit == "killed by SIGKILL"
    assert shared.chat("and now?").status_code == 200


def test_a_second_up_replaces_what_changed_and_nothing_else(shared: Local) -> None:
    before = shared.status()
    shared.up()
    assert [worker.name for worker in shared.status().workers] == [worker.name for worker in before.workers]
    assert engine_pid(shared.status(), "decode-0") == engine_pid(before, "decode-0")

    shared.up(seed=8)
    after = shared.status()

    assert after.url == before.url
    assert {worker.revision for worker in after.workers}.isdisjoint({worker.revision for worker in before.workers})
    assert all(worker.phase is WorkerPhase.READY for worker in after.workers)
    assert shared.chat("new revision?").status_code == 200


def test_a_killed_runner_leaves_nothing_and_the_next_up_starts_afresh(shared: Local) -> None:
    runner = shared.status().runner_pid
    os.kill(runner, signal.SIGKILL)
    assert shared.gone()
    assert "the runner has ended unexpectedly" in shared.call("status")

    shared.up()

    assert shared.status().runner_pid != runner
    assert shared.chat("back?").status_code == 200


def test_a_second_instance_in_the_foreground_runs_beside_it_until_ctrl_c(shared: Local, tmp_path: Path) -> None:
    other = Local(tmp_path / "other")
    other.folder.mkdir()
    command = other.argv("up", "-f", other.manifest(prefill=False), "--port", "0")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == f"ready: {other.status().url}\n"
            assert other.chat("hello").status_code == 200
            assert shared.chat("hello").status_code == 200
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=LIMIT_S)
        finally:
            process.kill()

    assert process.returncode == 0, errors
    assert "draining; Ctrl-C again kills" in errors
    assert other.status().phase is InstancePhase.STOPPED
    assert other.processes() == {}
    assert shared.chat("still there?").status_code == 200
