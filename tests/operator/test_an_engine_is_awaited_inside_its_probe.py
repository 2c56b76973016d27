"""The commands of the engine's probes, run as a kubelet runs them."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from inferplane_api.v1alpha1 import InferenceService
from inferplane_operator.render import render_service
from inferplane_operator.render.names import ENGINE_PORT

pytestmark = pytest.mark.slow
SERVICE = {
    "apiVersion": "inferplane.dev/v1alpha1",
    "kind": "InferenceService",
    "metadata": {"name": "chat"},
    "spec": {"model": {"name": "inferplane/sim"}, "engine": {"type": "sim"}, "mode": "aggregated", "decode": {}},
}


class Loading(BaseHTTPRequestHandler):
    """An engine that says twice that it loads, and serves then."""

    answers: Iterator[int]

    def do_GET(self) -> None:
        self.send_response(next(self.answers))
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is given
        pass


@pytest.fixture
def port() -> Iterator[int]:
    Loading.answers = iter((503, 503, 200))
    with ThreadingHTTPServer(("127.0.0.1", 0), Loading) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def rendered(kind: str) -> dict[str, Any]:
    (engine,) = render_service(InferenceService.model_validate(SERVICE)).pools[0].pod_template["spec"]["containers"]
    found: dict[str, Any] = engine[kind]
    return found


def probed(kind: str, port: int) -> int:
    """Run a probe of a rendered engine; return its exit code."""
    command: Sequence[str] = rendered(kind)["exec"]["command"]
    environment = {**os.environ, ENGINE_PORT: str(port)}
    done = subprocess.run(
        [sys.executable, *command[1:]], env=environment, capture_output=True, timeout=170, check=False
    )
    return done.returncode


def test_a_start_up_probe_ends_when_the_engine_serves(port: int) -> None:
    assert probed("startupProbe", port) == 0


def test_a_liveness_probe_says_what_is_now(port: int) -> None:
    assert [probed("livenessProbe", port) for _ in range(3)] == [1, 1, 0]


def test_an_engine_that_starts_soon_is_seen_soon_and_a_slow_one_has_its_time() -> None:
    probe = rendered("startupProbe")
    waits_s = 8  # inside, see above

    assert probe["periodSeconds"] == 1
    assert probe["failureThreshold"] * waits_s >= 30 * 60
