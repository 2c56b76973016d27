"""The baselines against the packages that they are named after, where an environment with these is at hand."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PYTHON = "INFERPLANE_PACKAGES_PYTHON"
BENCH = Path(__file__).parents[2] / "bench" / "bench_agreement.py"


@pytest.mark.slow
@pytest.mark.parametrize("package", ["dynamo", "sglang_router"])
def test_a_baseline_rates_the_worker_best_that_its_package_takes(package: str) -> None:
    python = os.environ.get(PYTHON)
    if python is None:
        pytest.skip(f"{PYTHON} does not name an interpreter that has ai-dynamo-runtime and sglang-router")
    asked = ("--python", python, "--packages", package, "--requests", "60", "--at", "saas=9")
    done = subprocess.run([sys.executable, str(BENCH), *asked], check=True, capture_output=True, text=True)
    results = json.loads(done.stdout.splitlines()[-1])["results"]

    assert results
    assert [each["agreed"] for each in results] == [1.0] * len(results)
