"""Three fronts of one service: our gateway, an Envoy that streams bodies to the picker, one that buffers them."""

import asyncio
import os
import threading
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import uvloop

from envoy_front import WITH_PICKER, Document, behind_envoy, processor, program
from inferplane_router.config import LimitSettings
from inferplane_router.core.warming import warm
from inferplane_workers.agent.config import Role
from one_loop_service import OneLoopService, WorkerSpec, one_loop_service

if TYPE_CHECKING:
    from pathlib import Path

# Kernels are compiled while tests are collected, so that no test's time limit pays for it.
warm()

FRONTS = ("gateway", "envoy", "envoy that buffers")
LIMIT = 500_000


@pytest.fixture(scope="session")
def envoy() -> None:
    """Have Envoy, or skip; where everything is checked it must be there."""
    try:
        program()
    except OSError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))


def buffering(document: Document) -> None:
    processor(document)["processing_mode"] |= {"request_body_mode": "BUFFERED", "request_trailer_mode": "SKIP"}


@pytest.fixture(scope="session")
def fronts(tmp_path_factory: pytest.TempPathFactory, envoy: None) -> Iterator[dict[str, OneLoopService]]:  # noqa: ARG001 - must be there
    """Give the service behind each front; only addresses and what merely reads may be used from here."""
    folder: Path = tmp_path_factory.mktemp("fronts")
    ready, over = threading.Event(), threading.Event()
    found: dict[str, OneLoopService] = {}
    config: dict[str, Any] = WITH_PICKER | {"limits": LimitSettings(max_body_bytes=LIMIT)}

    async def serve() -> None:
        specs = [WorkerSpec("p0", Role.PREFILL), WorkerSpec("d0", Role.DECODE), WorkerSpec("d1", Role.DECODE)]
        async with AsyncExitStack() as stack:
            service = await stack.enter_async_context(one_loop_service(folder, specs, config=config))
            first = await stack.enter_async_context(behind_envoy(service, folder / "duplex"))
            second = await stack.enter_async_context(behind_envoy(service, folder / "buffered", buffering))
            found.update(zip(FRONTS, (replace(service, front=service.address), first, second), strict=True))
            ready.set()
            await asyncio.to_thread(over.wait)

    def run() -> None:
        try:
            uvloop.run(serve())
        finally:
            ready.set()

    thread = threading.Thread(target=run, name="fronts")
    thread.start()
    ready.wait()
    try:
        yield found
    finally:
        over.set()
        thread.join()


@pytest.fixture(params=FRONTS)
def front(request: pytest.FixtureRequest, fronts: dict[str, OneLoopService]) -> OneLoopService:
    name: str = request.param
    return fronts[name]
