"""Settings shared by all tests: where kernels are cached, how Hypothesis draws, how asynchronous tests run."""

import os
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

import lanes

REPOSITORY = Path(__file__).parent.parent

# compiled once per checkout, whichever folder the tests are started from; children inherit it
os.environ.setdefault("NUMBA_CACHE_DIR", str(REPOSITORY / ".cache" / "numba"))

# as in every process of ours (`inferplane_runtime`), and before a test module that imports gRPC first
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")

# A shell's background jobs ignore SIGINT, and so would every program that a test starts in one and then interrupts.
signal.signal(signal.SIGINT, signal.default_int_handler)

# A shared machine makes any deadline a lottery, and the first call of a kernel compiles it.
settings.register_profile("dev", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", parent=settings.get_profile("dev"), derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "dev")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    lanes.put_in_order(items, lanes=lanes.is_a_lane(config))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    return lanes.scheduler(config, log)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Let no test of real engines be skipped where skipping goes unseen."""
    wanted = any(item.get_closest_marker("engine") for item in session.items)
    if wanted and os.environ.get("CI") and not (REPOSITORY / ".venv-engine" / "bin" / "python").exists():
        raise pytest.UsageError("tests with real engines are selected and there is no .venv-engine: run `make engine`")


@pytest.fixture(scope="session")
def repository() -> Path:
    """The checkout's root."""
    return REPOSITORY


@pytest.fixture
def anyio_backend() -> str:
    """Coroutine tests marked `anyio` run on asyncio, as every process of the project does."""
    return "asyncio"
