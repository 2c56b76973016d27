import pytest


@pytest.fixture
def anyio_backend() -> str:
    """Coroutine tests marked `anyio` run on asyncio alone: so does the runner."""
    return "asyncio"
