"""`/index` beside `/metrics`: what the index says of every worker against what the workers say themselves.

Asked by `inferplane diagnose`, and by nobody regularly: each agent sends a whole snapshot, twice.  Where blocks differ
for good, the router forgets what it knew of that worker and asks for all of it again, so whoever asks once more sees
whether it stays right.  Invariant: one check at a time; who asks meanwhile gets the answer of the one that runs.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import orjson
import structlog

from inferplane_router.core.index_check import Difference, Held, compare, lasting
from inferplane_router.core.index_kernels import DEVICE, DISK, HOST, RESUMABLE
from inferplane_router.core.router import RouterCore
from inferplane_router.streams.worker_blocks import NoSnapshotError, read_blocks
from inferplane_runtime.clock import Clock
from inferplane_runtime.http.api import Exchange, Handler, Headers, Request, Response
from inferplane_runtime.http.errors import json_error

_BETWEEN_S: Final = 1.0
"""Changes of blocks wait 20 ms for each other; a router that is busy hears of them later."""
_SHOWN: Final = 8
_JSON: Final = Headers(((b"content-type", b"application/json"),))
_PLANES: Final = {DEVICE: "device", HOST: "host", DISK: "disk", RESUMABLE: "resumable"}
_log = structlog.get_logger("inferplane.router")


@dataclass(frozen=True, slots=True)
class WorkerCheck:
    """What was found of one worker; `problem` when it could not be compared."""

    worker: str
    differences: tuple[Difference, ...] = ()
    problem: str = ""

    @property
    def differs(self) -> bool:
        return not all(each.is_none for each in self.differences)


class IndexCheck:
    """Compares all connected workers of one core."""

    def __init__(
        self,
        core: RouterCore,
        clock: Clock,
        *,
        read: Callable[[str], Awaitable[Held]] = read_blocks,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._core = core
        self._clock = clock
        self._read = read
        self._sleep = sleep
        self._running: asyncio.Task[list[WorkerCheck]] | None = None

    async def check(self) -> list[WorkerCheck]:
        """Compare; where blocks differ, ask the worker for all of them."""
        addresses = self._core.stream_addresses()
        first = await self._compared(addresses)
        await self._sleep(_BETWEEN_S)
        second = await self._compared(addresses)
        found = [_judged(worker, first[worker], second[worker]) for worker in addresses]
        for each in found:
            if each.differs:
                self._core.start_over(each.worker, "its blocks are not those of the index", self._clock.monotonic())
                _log.warning("index differs", worker=each.worker, differences=_counts(each.differences))
        return found

    def beside(self, others: Handler) -> Handler:
        """Return a handler that answers `/index`, and leaves all other paths to another one."""

        def handle(request: Request, exchange: Exchange) -> None:
            if request.path == b"/index":
                self._begun().add_done_callback(lambda done: exchange.respond(_answer(done)))
            else:
                others(request, exchange)

        return handle

    def close(self) -> None:
        """End the check that runs."""
        if self._running is not None:
            self._running.cancel()

    def _begun(self) -> asyncio.Task[list[WorkerCheck]]:
        if self._running is None or self._running.done():
            self._running = asyncio.get_running_loop().create_task(self.check(), name="index check")
        return self._running

    async def _compared(self, addresses: dict[str, str]) -> dict[str, list[Difference] | str]:
        """Compare each worker; a text says why one could not be."""
        return {worker: await self._one(worker, address) for worker, address in addresses.items()}

    async def _one(self, worker: str, address: str) -> list[Difference] | str:
        try:
            there = await self._read(address)
        except NoSnapshotError as error:
            return str(error)
        if worker not in self._core.stream_addresses():
            return "its stream ended while it was looked at"
        return compare(there, self._core.held_blocks(worker))


def _judged(worker: str, first: list[Difference] | str, second: list[Difference] | str) -> WorkerCheck:
    if isinstance(first, str):
        return WorkerCheck(worker, problem=first)
    if isinstance(second, str):
        return WorkerCheck(worker, problem=second)
    return WorkerCheck(worker, tuple(lasting(first, second)))


def _answer(done: asyncio.Task[list[WorkerCheck]]) -> Response:
    if done.cancelled():
        return json_error(503, "the router is being stopped")
    if (error := done.exception()) is not None:
        _log.error("the index could not be checked", exc_info=error)
        return json_error(500, "the index could not be checked; see the router's log")
    return Response(200, _JSON, orjson.dumps({"workers": [document(each) for each in done.result()]}))


def document(check: WorkerCheck) -> dict[str, Any]:
    """Write a check down; a few of the blocks that differ are named, in hexadecimal."""
    places = [
        {
            "rank": each.rank,
            "plane": _PLANES[each.plane],
            "blocks": each.there,
            "missing": each.missing.shape[0],
            "surplus": each.surplus.shape[0],
            "examples": [f"{int(key):016x}" for key in np.concatenate((each.missing, each.surplus))[:_SHOWN]],
        }
        for each in check.differences
    ]
    return {"worker": check.worker, "problem": check.problem, "places": places}


def _counts(differences: tuple[Difference, ...]) -> dict[str, int]:
    return {
        "missing": sum(each.missing.shape[0] for each in differences),
        "surplus": sum(each.surplus.shape[0] for each in differences),
    }
