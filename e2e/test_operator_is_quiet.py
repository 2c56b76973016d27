"""The operator, counted in an API server's audit log; `python -m e2e.operator_scale` does it with many more services.

It runs in a cluster and a network of its own, so that nobody else writes there.
"""

import json
import subprocess
import sys
from typing import Any

import pytest

from e2e.cluster.binaries import build_missing
from e2e.cluster.places import REPOSITORY

LEASE_ALONE = {"update leases"}


@pytest.fixture(scope="module")
def measured() -> dict[str, Any]:
    build_missing()
    command = [sys.executable, "-m", "e2e.operator_scale", "--services", "25", "--idle", "20", "--edits", "5"]
    found = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=280)
    assert found.returncode == 0, found.stderr
    result: dict[str, Any] = json.loads(found.stdout.splitlines()[-1])
    return result


def test_an_idle_operator_writes_nothing_but_its_lease(measured: dict[str, Any]) -> None:
    assert set(measured["idle_writes"]) == LEASE_ALONE


def test_applying_the_same_manifests_again_writes_nothing(measured: dict[str, Any]) -> None:
    assert set(measured["writes_after_applying_again"]) == LEASE_ALONE


def test_a_second_operator_repeats_nothing_of_the_first(measured: dict[str, Any]) -> None:
    assert set(measured["writes_of_a_second_operator"]) == LEASE_ALONE


def test_edits_are_carried_out_within_the_memory_bar(measured: dict[str, Any]) -> None:
    assert measured["edits"]["count"] == 5
    assert measured["peak_mib"] < 200
