"""Run a service as a user does, with `inferplane up`, and look at it from outside.

The demo and the end-to-end tests use it.  The service ends with the process that started it: `up` in the foreground
takes its runner with it, and the runner its workers.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import grpc
import httpx
from google.protobuf.json_format import MessageToDict

from bare_engine import ENGINE_PYTHON, tied_to_parent
from inferplane_api.proto import router_pb2, router_pb2_grpc
from inferplane_operator.local.statedir import StateDir
from inferplane_operator.local.status import InstancePhase, Status, WorkerStatus, read_status

START_LIMIT = "15m"
POLL_S = 0.2
DRAIN_LIMIT_S = 60.0


class ServiceFailedError(Exception):
    """The service ended or did not get ready in time; the text holds the reason and the ends of the logs."""


@dataclass(slots=True)
class LocalService:
    """A running `inferplane up`."""

    state: StateDir
    process: subprocess.Popen[bytes]
    output: Path
    started_at: float = field(default_factory=time.monotonic)

    @classmethod
    def start(
        cls, manifest: Path, state_dir: Path, *, port: int = 0, settings: Mapping[str, str] | None = None
    ) -> Self:
        """Start without waiting; `settings` are `INFERPLANE_*` variables for all its processes."""
        state_dir.mkdir(parents=True, exist_ok=True)
        output = state_dir / "up.log"
        command = [*tied_to_parent("TERM"), sys.executable, "-m", "inferplane", "up", "-f", str(manifest)]
        command += ["--port", str(port), "--state-dir", str(state_dir), "--gpus", "none"]
        command += ["--engine-python", str(ENGINE_PYTHON), "--timeout", START_LIMIT]
        with output.open("wb") as file:
            process = subprocess.Popen(  # noqa: S603 - our own command
                command,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                env={**os.environ, "PYTHONUNBUFFERED": "1", **(settings or {})},
                start_new_session=True,
            )
        return cls(StateDir(state_dir), process, output)

    def status(self) -> Status | None:
        return read_status(self.state)

    def ready_status(self) -> Status:
        """Return the status of a service that is known to run."""
        status = self.status()
        if status is None or not status.url:
            raise ServiceFailedError("the service does not run")
        return status

    def worker(self, name: str) -> WorkerStatus:
        return next(worker for worker in self.ready_status().workers if worker.name == name)

    def wait_ready(self, limit_s: float, tell: Callable[[str], None] = lambda _: None) -> float:
        """Wait until every worker and the gateway serve; return the seconds since the start.

        `tell` gets what `up` says meanwhile, line by line.
        """
        told = 0
        while True:
            waited = time.monotonic() - self.started_at
            said = self.output.read_text(errors="replace").split("\n")[
                :-1
            ]  # what follows the last newline is not whole
            for line in said[told:]:
                tell(f"  {waited:3.0f} s  {line}")
            told = len(said)
            if self.process.poll() is not None:
                raise ServiceFailedError(f"`up` ended with {self.process.returncode}:\n{self.last_words()}")
            status = self.status()
            if status is not None and status.phase is InstancePhase.READY:
                return waited
            if waited > limit_s:  # asked last: it may have become ready long before anybody waited for it
                raise ServiceFailedError(f"not ready after {limit_s:.0f} s:\n{self.last_words()}")
            time.sleep(POLL_S)

    def last_words(self) -> str:
        status = self.status()
        message = f"{status.phase}: {status.message}\n" if status else ""
        logs = [self.output, *sorted(self.state.logs.glob("*.log"))]
        return message + "\n".join(f"--- {log.name}\n{_tail(log)}" for log in logs if log.exists())

    def explain(self, request_id: str) -> dict[str, object] | None:
        """Return the router's decision record of a request, as plain values with every field."""
        make_stub: Any = router_pb2_grpc.RouterStub  # generated without types
        with grpc.insecure_channel(self.ready_status().grpc) as channel:
            request = router_pb2.ExplainRequest(request_id=request_id)
            reply: router_pb2.ExplainReply = make_stub(channel).Explain(request, timeout=60)
        if not reply.found:
            return None
        record: dict[str, object] = MessageToDict(
            reply.record, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
        )
        return record

    def stop(self) -> None:
        """Drain and end; what is left after that is killed."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):  # the kill below is the answer
            self.process.wait(DRAIN_LIMIT_S)
        with contextlib.suppress(ProcessLookupError):  # all gone
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def prompt_tokens_by_source(engine_url: str) -> dict[str, float]:
    """Return where an engine's prompt tokens came from: computed, found in its cache, or pulled from another engine."""
    name = "vllm:prompt_tokens_by_source_total"
    lines = httpx.get(f"{engine_url}/metrics", timeout=30).text.splitlines()
    pairs = (line.rsplit(" ", 1) for line in lines if line.startswith(name))
    return {labels.split('source="')[1].split('"')[0]: float(value) for labels, value in pairs}


def command_line(pid: int) -> list[str]:
    """Return the arguments of a running process (Linux)."""
    return Path(f"/proc/{pid}/cmdline").read_text().split("\0")[:-1]


def _tail(path: Path, size: int = 1500) -> str:
    return path.read_text(errors="replace")[-size:]
