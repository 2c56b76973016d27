"""Other projects' proxies before the same backend: what they cost stands beside what ours costs.

Problem: absolute times say little, and peers' published ones were measured elsewhere.  Idea: who is installed in an
environment of its own (`.cache/peers`, see docs/benchmarks/data-path.md) is started and takes the same load in the
same run; who is not is skipped, and the result says why.  Invariant: a peer that does not answer is no measurement.
"""

import contextlib
import json
import socket
import subprocess
import time
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HOME = Path(__file__).resolve().parents[2] / ".cache" / "peers"
_CONNECTION_MANAGER = "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"
_ROUTER = "envoy.extensions.filters.http.router.v3.Router"
_START_S = 60.0


@dataclass(frozen=True, slots=True)
class Peer:
    """A running proxy."""

    name: str
    port: int
    pid: int


@contextlib.contextmanager
def running_peers(folder: Path, backend: int, *, home: Path = HOME) -> Generator[tuple[list[Peer], dict[str, str]]]:
    """Start whoever is installed before the backend's port; also say why the others are missing."""
    running: list[Peer] = []
    skipped: dict[str, str] = {}
    with contextlib.ExitStack() as stack:
        for name, program in (("vllm_router_cache_aware", "vllm-router"), ("envoy", "envoy")):
            if not (home / "bin" / program).exists():
                skipped[name] = f"{program} is not installed in {home.name}"
                continue
            port = _free_port()
            command = (
                _vllm_router(home, port, backend) if program == "vllm-router" else _envoy(home, port, folder, backend)
            )
            try:
                running.append(Peer(name, port, stack.enter_context(_started(command, port))))
            except TimeoutError:
                skipped[name] = f"{program} did not answer within {_START_S:.0f} s"
        yield running, skipped


def _vllm_router(home: Path, port: int, backend: int) -> list[str]:
    return [
        *(str(home / "bin" / "vllm-router"), "--host", "127.0.0.1", "--port", str(port), "--policy", "cache_aware"),
        *("--worker-urls", f"http://127.0.0.1:{backend}", "--prometheus-port", str(_free_port())),
        *("--log-level", "error", "--worker-startup-check-interval", "1"),
    ]


def _envoy(home: Path, port: int, folder: Path, backend: int) -> list[str]:
    written = folder / "envoy.json"
    written.write_text(json.dumps(_envoy_configuration(port, backend)), "utf-8")
    return [
        *(str(home / "bin" / "envoy"), "--config-path", str(written), "--concurrency", "1"),
        *("--log-level", "error", "--disable-hot-restart"),
    ]


def _envoy_configuration(port: int, backend: int) -> dict[str, Any]:
    """Say what Envoy needs to pass everything on and nothing more."""
    route = {"match": {"prefix": "/"}, "route": {"cluster": "backend", "timeout": "0s"}}
    manager = {
        "@type": f"type.googleapis.com/{_CONNECTION_MANAGER}",
        "stat_prefix": "bench",
        "generate_request_id": False,
        "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [route]}]},
        "http_filters": [
            {"name": "envoy.filters.http.router", "typed_config": {"@type": f"type.googleapis.com/{_ROUTER}"}}
        ],
    }
    chain = {"filters": [{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}]}
    endpoints = {"cluster_name": "backend", "endpoints": [{"lb_endpoints": [{"endpoint": _address(backend)}]}]}
    cluster = {"name": "backend", "type": "STATIC", "connect_timeout": "1s", "load_assignment": endpoints}
    listener = {"name": "bench", **_address(port), "filter_chains": [chain]}
    return {"static_resources": {"listeners": [listener], "clusters": [cluster]}}


def _address(port: int) -> dict[str, Any]:
    return {"address": {"socket_address": {"address": "127.0.0.1", "port_value": port}}}


@contextlib.contextmanager
def _started(command: list[str], port: int) -> Generator[int]:
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait(port, child)
        yield child.pid
    finally:
        child.terminate()
        child.wait(30)


def _wait(port: int, child: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline and child.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1.0):
            return
        time.sleep(0.1)
    raise TimeoutError


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
