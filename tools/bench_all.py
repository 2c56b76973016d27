"""Run every benchmark of bench/ that takes minutes, one after the other, and keep their JSON lines.

Nothing runs beside a benchmark, so they are separate processes in sequence.  A benchmark prints one JSON object a line;
each is repeated here with the benchmark's name, the commit and the machine, and appended to .cache/bench.jsonl.
"""

import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent
RESULTS = REPOSITORY / ".cache" / "bench.jsonl"
TIME_LIMIT_S = 900.0
MATRICES = frozenset({"bench_fidelity.py", "bench_routing.py", "tune_routing.py"})
"""Many runs of the same thing, which take hours: one is started by its own name."""


def main() -> int:
    found = (path for path in (REPOSITORY / "bench").glob("*.py") if not path.name.startswith("_"))
    benchmarks = sorted(path for path in found if path.name not in MATRICES)
    if not benchmarks:
        sys.stderr.write("there is no benchmark in bench/\n")
        return 1
    circumstances = describe_run()
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    failed = [path.name for path in benchmarks if not run(path, circumstances)]
    if failed:
        sys.stderr.write(f"failed: {', '.join(failed)}\n")
    return 1 if failed else 0


def describe_run() -> dict[str, Any]:
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"],  # noqa: S607 - the user's own git
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    return {
        "commit": commit.stdout.strip() or "unknown",
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
    }


def run(path: Path, circumstances: Mapping[str, Any]) -> bool:
    sys.stderr.write(f"== {path.name}\n")
    try:
        done = subprocess.run(  # noqa: S603 - our own file
            [sys.executable, str(path)],
            cwd=REPOSITORY,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY / "tools")},
            stdout=subprocess.PIPE,
            text=True,
            timeout=TIME_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        sys.stderr.write(f"{path.name}: not done after {TIME_LIMIT_S:.0f} s\n")
        return False
    with RESULTS.open("a") as results:
        for value in json_objects(done.stdout):
            line = json.dumps({"bench": path.stem, **value, **circumstances})
            sys.stdout.write(line + "\n")
            results.write(line + "\n")
    return done.returncode == 0


def json_objects(text: str) -> Iterator[dict[str, Any]]:
    for line in text.splitlines():
        if not line.startswith("{"):
            continue
        yield json.loads(line)


if __name__ == "__main__":
    sys.exit(main())
