"""Start plain vLLM engines on this machine's cores, without any other part of the project.

Two things need engines that nothing else has touched: the tests that record what an engine really does, and the demo's
comparison of start-up times.  An engine is a tree of processes: it is started as a session of its own, told to end,
and after a grace period the whole group is killed; it also ends with the process that started it.
"""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Literal, Self

REPOSITORY = Path(__file__).resolve().parent.parent
ENGINE_PYTHON = REPOSITORY / ".venv-engine" / "bin" / "python"
PLUGIN = REPOSITORY / "workers" / "inferplane_engine" / "vllm_cpu_plugin"

Role = Literal["prefill", "decode"]

POLL_S = 0.2
STOP_GRACE_S = 5.0
_ROLES: Mapping[Role, str] = {"prefill": "kv_producer", "decode": "kv_consumer"}


class EngineFailedError(Exception):
    """An engine ended, or did not get ready in time; the text holds the end of its log."""


@dataclass(frozen=True, slots=True)
class EngineSpec:
    """What to start.  `kv_cache_bytes` is small where evictions are wanted."""

    name: str
    role: Role
    model: Path
    served_names: tuple[str, ...]
    kv_cache_bytes: int
    dtype: str = "float32"
    max_model_len: int = 4096
    block_size: int = 32
    arguments: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    python: Path = ENGINE_PYTHON


@dataclass(slots=True)
class BareEngine:
    """A running engine."""

    spec: EngineSpec
    url: str
    events: str
    replay: str
    log: Path
    process: subprocess.Popen[bytes]
    started_at: float = field(default_factory=time.monotonic)

    @classmethod
    def start(cls, spec: EngineSpec, folder: Path) -> Self:
        """Start without waiting; `folder` gets the log and the event sockets."""
        folder.mkdir(parents=True, exist_ok=True)
        port, side_channel = free_port(), free_port()
        events, replay = (f"ipc://{folder}/{spec.name}.{kind}" for kind in ("events", "replay"))
        log = folder / f"{spec.name}.log"
        with log.open("wb") as output:
            process = _spawn(
                _command(spec, port, events, replay),
                {**_environment(spec.python, side_channel), **dict(spec.environment)},
                output,
            )
        return cls(spec, f"http://127.0.0.1:{port}", events, replay, log, process)

    def wait_ready(self, limit_s: float) -> float:
        """Wait until the engine answers; return the seconds since its start."""
        while (waited := time.monotonic() - self.started_at) < limit_s:
            if self.process.poll() is not None:
                raise EngineFailedError(f"{self.spec.name} ended with {self.process.returncode}:\n{self.last_words()}")
            if _answers(f"{self.url}/health"):
                return waited
            time.sleep(POLL_S)
        raise EngineFailedError(f"{self.spec.name} is not ready after {limit_s:.0f} s:\n{self.last_words()}")

    def last_words(self) -> str:
        return self.log.read_text(errors="replace")[-4000:]

    def stop(self) -> None:
        """End the whole tree."""
        _signal_group(self.process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):  # the kill below is the answer
            self.process.wait(STOP_GRACE_S)
        _signal_group(self.process.pid, signal.SIGKILL)
        self.process.wait()


def free_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])


def tied_to_parent(signal_name: str) -> list[str]:
    """Return a prefix for a command that gets this signal when whoever started it is gone, however that ended."""
    return ["setpriv", "--pdeathsig", signal_name] if shutil.which("setpriv") else []


def _command(spec: EngineSpec, port: int, events: str, replay: str) -> list[str]:
    transfer = {
        "kv_connector": "NixlConnector",
        "kv_role": _ROLES[spec.role],
        "kv_buffer_device": "cpu",
        "kv_load_failure_policy": "recompute",
    }
    publishing = {
        "enable_kv_cache_events": True,
        "publisher": "zmq",
        "endpoint": events,
        "replay_endpoint": replay,
    }
    return [
        *tied_to_parent("KILL"),
        *(str(spec.python), "-m", "vllm.entrypoints.openai.api_server"),
        *("--model", str(spec.model), "--served-model-name", *spec.served_names),
        *("--host", "127.0.0.1", "--port", str(port)),
        *("--enforce-eager", "--dtype", spec.dtype, "--distributed-executor-backend", "uni"),
        *("--max-model-len", str(spec.max_model_len), "--block-size", str(spec.block_size)),
        *("--kv-cache-memory-bytes", str(spec.kv_cache_bytes), "--enable-prompt-tokens-details"),
        *("--kv-transfer-config", json.dumps(transfer), "--kv-events-config", json.dumps(publishing)),
        *spec.arguments,
    ]


def _environment(python: Path, side_channel: int) -> dict[str, str]:
    return {
        **os.environ,
        "PATH": f"{python.parent}:{os.environ.get('PATH', os.defpath)}",
        "PYTHONPATH": str(PLUGIN),
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "TORCHDYNAMO_DISABLE": "1",
        "OMP_NUM_THREADS": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # the model runs in the scheduler's process: one import of vLLM less
        "VLLM_NIXL_SIDE_CHANNEL_HOST": "127.0.0.1",
        "VLLM_NIXL_SIDE_CHANNEL_PORT": str(side_channel),
    }


def _spawn(command: list[str], environment: dict[str, str], output: IO[bytes]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # noqa: S603 - our own command
        command, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
    )


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=1) as answer:  # noqa: S310 - a local address made here
            return bool(answer.status == 200)  # noqa: PLR2004 - OK
    except OSError:  # refused, reset or silent: not yet
        return False


def _signal_group(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):  # all gone
        os.killpg(group, number)
