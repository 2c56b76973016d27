"""Engines, agents and the router of a local instance are killed under load, one after the other.

Answers are right or visibly broken, errors are ones that a client may retry, and when it is over nothing is left: no
request in force, nobody waiting, no process, no memory that grew with the faults.
"""

import os
import random
import re
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx
import pytest

from inferplane_operator.local.processes import INSTANCE_MARKER
from inferplane_operator.local.status import InstancePhase, WorkerPhase
from local_service import LocalService
from one_loop_service import streamed_text

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(240),  # eleven processes start, each with seconds of imports, on whatever cores there are
    pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc"),
]
MANIFEST = """\
apiVersion: inferplane.dev/v1alpha1
kind: InferenceService
metadata: {name: chaos}
spec:
  model: {name: inferplane/sim, servedNames: [sim]}
  engine: {type: sim, blockSize: 16, maxModelLen: 4096, sim: {profile: h100-8b, speed: 1, seed: 7}}
  mode: disaggregated
  prefill: {replicas: 1}
  decode: {replicas: 2}
  drainTimeout: 5s
"""
CLIENTS, PROMPTS, LOAD_S = 16, 12, 25.0
IN_FORCE = (
    "gateway_running_requests",
    "router_queued_requests",
    "router_in_flight_requests",
    "router_worker_in_flight_requests",
)
RETRYABLE = {429, 503}
MEMORY_BOUND = 400 * 1024 * 1024


def body(number: int) -> dict[str, Any]:
    words = " ".join(f"word{number}x{i}" for i in range(80))
    return {"model": "sim", "prompt": words, "max_tokens": 24, "ignore_eos": True, "stream": number % 2 == 1}


class Load:
    """Clients in threads, each with its next request as soon as the last one has ended."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.over = threading.Event()
        self.seen: Counter[str] = Counter()
        self.right: dict[int, str] = {}
        self.wrong: list[str] = []
        self.threads = [threading.Thread(target=self._client, args=(seed,), daemon=True) for seed in range(CLIENTS)]

    def learn(self) -> None:
        """Ask everything once while nothing is wrong."""
        with httpx.Client(trust_env=False, timeout=60) as client:
            for number in range(PROMPTS):
                self.right[number] = self._text(client.post(f"{self.url}/v1/completions", json=body(number)))

    def run(self) -> None:
        for thread in self.threads:
            thread.start()

    def end(self) -> int:
        """Stop; return how many clients are stuck."""
        self.over.set()
        deadline = time.monotonic() + 60
        for thread in self.threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        return sum(thread.is_alive() for thread in self.threads)

    def _client(self, seed: int) -> None:
        rng = random.Random(seed)
        with httpx.Client(trust_env=False, timeout=50) as client:
            while not self.over.is_set():
                self._ask(client, rng.randrange(PROMPTS))

    def _ask(self, client: httpx.Client, number: int) -> None:
        said = b""
        try:
            with client.stream("POST", f"{self.url}/v1/completions", json=body(number)) as answer:
                for piece in answer.iter_raw():
                    said += piece
        except (httpx.RemoteProtocolError, httpx.ReadError, httpx.ConnectError) as error:
            self.seen[f"connection: {type(error).__name__}"] += 1
            self._judge(number, streamed_text(said[: said.rfind(b"\n\n") + 2]) if said[:5] == b"data:" else "")
            time.sleep(0.05)
            return
        except httpx.TimeoutException:
            self.wrong.append(f"{number}: stuck")
            return
        self.seen[str(answer.status_code)] += 1
        if answer.status_code == HTTPStatus.OK and b'"error"' in said:
            self.seen["broken stream"] += 1
            self._judge(number, streamed_text(said))
        elif answer.status_code == HTTPStatus.OK:
            whole = httpx.Response(200, content=said)
            if self._text(whole) != self.right[number]:
                self.wrong.append(f"{number}: {self._text(whole)!r} instead of {self.right[number]!r}")
        elif answer.status_code not in RETRYABLE:
            self.wrong.append(f"{number}: {answer.status_code} {said!r}")
        else:
            time.sleep(0.05)

    def _judge(self, number: int, part: str) -> None:
        if not self.right[number].startswith(part):
            self.wrong.append(f"{number}: {part!r} is no beginning of {self.right[number]!r}")

    def _text(self, answer: httpx.Response) -> str:
        if answer.content.startswith(b"data:"):
            return streamed_text(answer.content)
        return str(answer.json()["choices"][0]["text"])


@pytest.fixture
def service(tmp_path: Path) -> Iterator[LocalService]:
    manifest = tmp_path / "service.yaml"
    manifest.write_text(MANIFEST)
    found = LocalService.start(manifest, tmp_path / "state")
    try:
        found.wait_ready(120)
        yield found
    finally:
        found.stop()


def pids(service: LocalService) -> dict[str, int]:
    status = service.ready_status()
    children = [child for worker in status.workers for child in (worker.agent, worker.engine)]
    return {child.name: child.pid for child in [*children, status.router] if child is not None and child.pid}


def resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def marked(state: Path) -> list[int]:
    """Return the processes of this instance that live."""
    mark = f"{INSTANCE_MARKER}={state}".encode()
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdecimal() and mark in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def gauge(page: str, name: str) -> float:
    return sum(float(value) for value in re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)$", page, re.MULTILINE))


def in_force(service: LocalService) -> dict[str, float]:
    """Return the router's gauges of requests that are not zero."""
    page = httpx.get(f"http://{service.ready_status().metrics}/metrics", trust_env=False).text
    found = {name: gauge(page, f"inferplane_{name}") for name in IN_FORCE}
    return {name: value for name, value in found.items() if value}


def wait_whole(service: LocalService, limit_s: float) -> bool:
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        status = service.status()
        if status is not None and status.phase is InstancePhase.READY:
            return all(worker.phase is WorkerPhase.READY for worker in status.workers)
        time.sleep(0.05)
    return False


def test_kills_under_load_cost_no_wrong_answer_and_leave_nothing(service: LocalService) -> None:
    load = Load(service.ready_status().url)
    load.learn()
    load.run()
    victims = ["decode-0-engine", "prefill-0-engine", "decode-1-agent", "prefill-0-agent", "decode-1-engine", "router"]
    random.Random(5).shuffle(victims)
    began = time.monotonic()
    for victim in victims:
        time.sleep(LOAD_S / len(victims) / 2)  # load between kills, not a wait for something
        if (pid := pids(service).get(victim)) is not None:
            os.kill(pid, signal.SIGKILL)
    time.sleep(max(0.0, LOAD_S - (time.monotonic() - began)))
    stuck = load.end()

    assert load.wrong == []
    assert stuck == 0
    assert load.seen["200"] > 0
    assert wait_whole(service, 60), service.last_words()

    deadline = time.monotonic() + 20
    while left := in_force(service):
        assert time.monotonic() < deadline, left

    assert resident(pids(service)["router"]) < MEMORY_BOUND

    service.stop()

    assert marked(service.state.root) == []
