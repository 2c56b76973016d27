"""Run a collector of OpenTelemetry's own code, for tests of traces: it takes spans over HTTP and passes them on.

`make collector` builds it from Go modules.  It keeps nothing, and ends with its caller.
"""

import json
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from bare_engine import tied_to_parent
from inferplane_runtime.ports import hold_port

PROGRAM: Final = Path(__file__).resolve().parents[1] / ".cache" / "collector" / "collector"
_READY: Final = b"Everything is ready"
_END_S: Final = 20.0


class CollectorError(Exception):
    """It did not start; the text holds what it said."""


def find_collector() -> Path | None:
    """Return the path of the program, where it has been built."""
    return PROGRAM if PROGRAM.is_file() else None


@contextmanager
def real_collector(program: Path, folder: Path, *, to: str) -> Generator[str]:
    """Yield the URL that takes spans; `to` is the one that they are passed on to.  Raises CollectorError."""
    config = folder / "collector.yaml"  # of which JSON is a part
    with hold_port() as held:
        config.write_text(json.dumps(_configure(held.number, to)), "utf-8")
        process = subprocess.Popen(  # noqa: S603 - our own command
            [*tied_to_parent("TERM"), str(program), f"--config={config}"], stderr=subprocess.PIPE, cwd=folder
        )
        try:
            _wait(process)
            yield f"http://127.0.0.1:{held.number}/v1/traces"
        finally:
            process.terminate()
            process.communicate(timeout=_END_S)


def _wait(process: subprocess.Popen[bytes]) -> None:
    assert process.stderr is not None  # noqa: S101 - a pipe was asked for
    said = list[bytes]()
    for line in process.stderr:
        if _READY in line:
            return
        said.append(line)
    raise CollectorError(b"".join(said[-20:]).decode("utf-8", "replace"))


def _configure(port: int, to: str) -> dict[str, Any]:
    pipeline = {"receivers": ["otlp"], "exporters": ["otlp_http"]}
    return {
        "receivers": {"otlp": {"protocols": {"http": {"endpoint": f"127.0.0.1:{port}"}}}},
        "exporters": {"otlp_http": {"traces_endpoint": to, "compression": "none"}},
        "service": {"pipelines": {"traces": pipeline}, "telemetry": {"metrics": {"level": "none"}}},
    }
