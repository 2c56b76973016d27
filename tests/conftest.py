"""Settings shared by all tests: where kernels are cached, how Hypothesis draws, how asynchronous tests run."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

REPOSITORY = Path(__file__).parent.parent

# compiled once per checkout, whichever folder the tests are started from; children inherit it
os.environ.setdefault("NUMBA_CACHE_DIR", str(REPOSITORY / ".cache" / "numba"))

# A shared machine makes any deadline a lottery, and the first call of a kernel compiles it.
settings.register_profile("dev", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", parent=settings.get_profile("dev"), derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "dev")


@pytest.fixture(scope="session")
def repository() -> Path:
    """The checkout's root."""
    return REPOSITORY


@pytest.fixture
def anyio_backend() -> str:
    """Coroutine tests marked `anyio` run on asyncio, as every process of the project does."""
    return "asyncio"
