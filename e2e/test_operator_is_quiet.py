"""The operator, counted in an API server's audit log; `python -m e2e.operator_scale` does it with many more services.

It runs in a cluster and a network of its own, so that nobody else writes there, and beside the other tests, since most
of its time it waits for nothing to happen.
"""

from typing import Any

import pytest

from e2e.support.counted import Counted

LEASE_ALONE = {"update leases"}


@pytest.fixture(scope="module")
def measured(counted: Counted) -> dict[str, Any]:
    return counted.result(limit_s=280)


def test_an_idle_operator_writes_nothing_but_its_lease(measured: dict[str, Any]) -> None:
    assert set(measured["idle_writes"]) == LEASE_ALONE


def test_applying_the_same_manifests_again_writes_nothing(measured: dict[str, Any]) -> None:
    assert set(measured["writes_after_applying_again"]) == LEASE_ALONE


def test_a_second_operator_repeats_nothing_of_the_first(measured: dict[str, Any]) -> None:
    assert set(measured["writes_of_a_second_operator"]) == LEASE_ALONE


def test_edits_are_carried_out_within_the_memory_bar(measured: dict[str, Any]) -> None:
    assert measured["edits"]["count"] == 5
    assert measured["peak_mib"] < 200
