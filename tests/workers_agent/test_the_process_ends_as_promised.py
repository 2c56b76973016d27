import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

COMMAND = [sys.executable, "-m", "inferplane_workers.agent"]
FLAGS = [
    *("--worker-id", "w", "--service", "s", "--pool", "p", "--role", "decode", "--model", "m"),
    *("--engine-url", "http://127.0.0.1:1", "--listen-http", "127.0.0.1:0", "--listen-stream", "127.0.0.1:0"),
    *("--listen-metrics", "127.0.0.1:0", "--log-format", "json"),
]


def test_a_wrong_flag_ends_with_2_and_a_line_that_names_it() -> None:
    ended = subprocess.run([*COMMAND, *FLAGS], capture_output=True, text=True, timeout=170, check=False)

    assert ended.returncode == 2
    assert "--state-dir: is required (or INFERPLANE_STATE_DIR)" in ended.stderr


def test_a_signal_drains_and_ends_with_0(tmp_path: Path) -> None:
    command = [*COMMAND, *FLAGS, "--state-dir", str(tmp_path), "--kv-events", f"ipc://{tmp_path}/kv"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        first = next(line for line in process.stderr if "listening" in line)
        process.send_signal(signal.SIGTERM)
        _, rest = process.communicate(timeout=170)

    assert process.returncode == 0
    assert '"component": "agent"' in first
    assert "drain ends" in rest


@pytest.mark.parametrize("flag", ["--listen-http", "--listen-stream", "--listen-metrics"])
def test_a_port_in_use_ends_with_2_and_names_its_flag(tmp_path: Path, flag: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        command = [*COMMAND, *FLAGS, "--state-dir", str(tmp_path), flag, address]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=170, check=False)

    assert ended.returncode == 2
    assert f"inferplane-agent: {flag}: cannot listen on {address}" in ended.stderr
