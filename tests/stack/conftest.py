"""One whole service for tests that leave nothing behind in it: router, prefill and decode worker, in a thread."""

import asyncio
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
import uvloop

from inferplane_router.config import LimitSettings
from inferplane_workers.agent.config import Role
from one_loop_service import OneLoopService, WorkerSpec, one_loop_service

if TYPE_CHECKING:
    from pathlib import Path

QUICK_LIMITS = LimitSettings(header_timeout_s=2.0, body_timeout_s=2.0)


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OneLoopService]:
    """Give the service; only its addresses and what merely reads may be used from here, since its loop is another's."""
    folder: Path = tmp_path_factory.mktemp("shared")
    ready, over = threading.Event(), threading.Event()
    found: list[OneLoopService] = []

    async def serve() -> None:
        specs = [WorkerSpec("p0", Role.PREFILL), WorkerSpec("d0", Role.DECODE)]
        async with one_loop_service(folder, specs, config={"limits": QUICK_LIMITS}) as service:
            found.append(service)
            ready.set()
            await asyncio.to_thread(over.wait)

    def run() -> None:
        try:
            uvloop.run(serve())
        finally:
            ready.set()

    thread = threading.Thread(target=run, name="service")
    thread.start()
    ready.wait()
    try:
        yield found[0]
    finally:
        over.set()
        thread.join()
