"""How much longer the demo's service takes to start than its three engines alone, in the same run.

    python bench/demo_startup.py

Engines first, then the service, each started at once and waited for; the engines' environment and the weights are there
already, as in a second run of the demo.  One JSON line at the end.
"""

import json
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))

from bare_engine import ENGINE_PYTHON, REPOSITORY, BareEngine, EngineSpec, Role
from local_service import LocalService

MODEL = REPOSITORY / ".cache" / "models" / "smollm2-135m-instruct"
MANIFEST = REPOSITORY / "examples" / "smollm2.yaml"
LIMIT_S = 900.0
BAR = 1.3


def main() -> int:
    if not ENGINE_PYTHON.exists() or not MODEL.exists():
        print("no engine or no weights: run `make demo` once", file=sys.stderr)
        return 0
    with tempfile.TemporaryDirectory(prefix="inferplane-") as scratch:
        bare_s = start_engines(Path(scratch) / "bare")
        service_s = start_service(Path(scratch) / "service")
    figures = {
        "bare_engines_s": round(bare_s, 1),
        "service_s": round(service_s, 1),
        "ratio": round(service_s / bare_s, 2),
    }
    print(json.dumps({**figures, "bar": BAR}))
    return 0


def start_engines(folder: Path) -> float:
    roles: tuple[tuple[str, Role], ...] = (("prefill-0", "prefill"), ("decode-0", "decode"), ("decode-1", "decode"))
    specs = [EngineSpec(name, role, MODEL, ("smollm2",), 512 * 1024 * 1024) for name, role in roles]
    engines = [BareEngine.start(spec, folder) for spec in specs]
    try:
        return max(engine.wait_ready(LIMIT_S) for engine in engines)
    finally:
        for engine in engines:
            engine.stop()


def start_service(folder: Path) -> float:
    service = LocalService.start(MANIFEST, folder)
    try:
        return service.wait_ready(LIMIT_S)
    finally:
        service.stop()


if __name__ == "__main__":
    sys.exit(main())
