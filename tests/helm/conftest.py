"""Tests of the chart by what helm makes of it, without a cluster."""

import pytest

from helm_chart import Helm, find_helm


@pytest.fixture(scope="session")
def helm() -> Helm:
    """The helm binary; `make e2e` builds one and runs these tests with it."""
    program = find_helm()
    if program is None:
        pytest.skip("there is no helm: put one on PATH, name it in INFERPLANE_HELM, or let `make e2e` build it")
    return Helm(program)
