"""What is wrong with a configuration is told by one process, and ends the router."""

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


def start(folder: Path, **changes: object) -> subprocess.CompletedProcess[str]:
    listen = dict.fromkeys(("http", "grpc", "metrics", "extProc"), "127.0.0.1:0")
    config = {
        "listen": listen,
        "discovery": {"file": str(folder / "none.json")},
        "cacheDir": str(folder),
        "processes": 2,
    }
    (folder / "router.json").write_text(json.dumps(config | changes))
    command = [sys.executable, "-m", "inferplane_router", "--config", str(folder / "router.json")]
    return subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)


def test_a_number_of_processes_that_cannot_be(tmp_path: Path) -> None:
    ended = start(tmp_path, processes=0)

    assert ended.returncode == 2
    assert ended.stderr == "error: processes: 0 is too small: at least 1\n"


def test_an_address_that_is_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        ended = start(tmp_path, listen={"http": address, "grpc": "127.0.0.1:0", "metrics": "127.0.0.1:0"})

    assert ended.returncode == 1
    assert ended.stderr.count(f"listen.http: {address} cannot be used") == 1


def test_a_certificate_that_is_not_there(tmp_path: Path) -> None:
    missing = str(tmp_path / "tls.crt")
    ended = start(tmp_path, extProc={"certificate": missing, "key": missing})

    assert ended.returncode == 1
    assert ended.stderr.count("No such file") == 1


def test_a_cluster_that_cannot_be_known(tmp_path: Path) -> None:
    ended = start(tmp_path, discovery={"kubernetes": {"kubeconfig": str(tmp_path / "none")}})

    assert ended.returncode == 2
    assert ended.stderr.count("wrong configuration") == 1
