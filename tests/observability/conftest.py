"""Prometheus and promtool, where they are."""

import os
import shutil
from pathlib import Path

import pytest

from real_prometheus import find_program


def _program(name: str) -> Path:
    found = find_program(name)
    if found is not None:
        return found
    said = f"there is no {name}: `make prometheus` fetches Debian's, or put one on PATH"
    if os.environ.get("CI") and shutil.which("apt-get"):
        pytest.fail(said)
    pytest.skip(said)


@pytest.fixture(scope="session")
def prometheus() -> Path:
    return _program("prometheus")


@pytest.fixture(scope="session")
def promtool() -> Path:
    return _program("promtool")
