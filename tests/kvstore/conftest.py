"""A real Redis, where there is one."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from real_redis import RealRedis, find_program

PASSWORD = "secret"  # noqa: S105 - of these tests' servers


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RealRedis]:
    """A server of this test's own, with a password."""
    program = find_program("redis-server")
    if program is None:
        said = "there is no redis-server: `make redis` fetches Debian's, or put one on PATH"
        if os.environ.get("CI") and shutil.which("apt-get"):
            pytest.fail(said)
        pytest.skip(said)
    server = RealRedis.start(program, tmp_path, "--requirepass", PASSWORD)
    yield server
    server.kill()
