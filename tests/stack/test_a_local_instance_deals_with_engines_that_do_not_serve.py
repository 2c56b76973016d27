"""Engines that never get ready or stop working, under `inferplane up`: said with a reason, and started anew."""

import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from local_service import LocalService

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(240),  # processes start, each with seconds of imports, on whatever cores there are
    pytest.mark.skipif(sys.platform != "linux", reason="ties processes to their parent"),
]
MANIFEST = """\
apiVersion: inferplane.dev/v1alpha1
kind: InferenceService
metadata: {{name: faulty}}
spec:
  model: {{name: inferplane/sim, servedNames: [sim]}}
  engine: {{type: sim, blockSize: 16, maxModelLen: 4096, sim: {{profile: h100-8b, speed: 5, faults: [{fault}]}}}}
  mode: aggregated
  decode: {{replicas: 1}}
  drainTimeout: 1s
"""


def manifest(folder: Path, fault: str) -> Path:
    file = folder / "service.yaml"
    file.write_text(MANIFEST.format(fault=fault))
    return file


def test_an_engine_that_never_gets_ready_ends_the_wait_with_status_3(tmp_path: Path) -> None:
    file = manifest(tmp_path, "{kind: stalled-start}")
    command = [sys.executable, "-m", "inferplane", "up", "-f", str(file), "--port", "0", "--timeout", "6s"]
    done = subprocess.run(
        [*command, "--state-dir", str(tmp_path / "state")], capture_output=True, text=True, check=False, timeout=120
    )

    assert done.returncode == 3, done.stderr
    assert "not ready within 6 s" in done.stderr
    assert "decode-0-engine.log" in done.stderr  # whose last lines follow


def test_an_engine_that_stalls_for_a_while_is_waited_for(tmp_path: Path) -> None:
    service = LocalService.start(manifest(tmp_path, "{kind: stalled-start, duration: 5s}"), tmp_path / "state")
    try:
        service.wait_ready(120)
    finally:
        service.stop()


def test_a_hung_engine_is_started_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INFERPLANE_HANG_TIMEOUT", "2s")
    monkeypatch.setenv("INFERPLANE_CANARY_TIMEOUT", "5s")
    service = LocalService.start(manifest(tmp_path, "{kind: hang, atRequest: 2}"), tmp_path / "state")
    try:
        service.wait_ready(120)
        url = service.ready_status().url
        body = {"model": "sim", "prompt": "a", "max_tokens": 4}
        answer = httpx.post(f"{url}/v1/completions", json=body, timeout=60, trust_env=False)
        deadline = time.monotonic() + 60
        while not ((engine := service.worker("decode-0").engine) and engine.restarts):
            assert time.monotonic() < deadline, service.last_words()
            time.sleep(0.05)
        service.wait_ready(200)

        assert answer.status_code == 503
        assert "retry-after" in answer.headers
        assert "the engine hangs" in engine.last_exit
    finally:
        service.stop()
