"""What agents are told of coming blocks, a moment's worth at a time.

Problem: the agents that will store a request's blocks hear of them when it is routed, and a message costs far more than
what it says: three levels of objects, a place in a queue, and somebody who wakes up for it.
Idea: the first expectation of a moment sets a timer, and what comes until it fires goes into the same message, one for
each worker.
Trade-off: an agent hears a moment later of blocks that take an engine several of them to compute.
Invariants: an expectation is told once, behind those of the same worker that came before it; a worker that cannot be
told keeps the others' news from nobody.
"""

import asyncio
from collections.abc import Callable

import structlog

from inferplane_api.proto import worker_pb2 as wire
from inferplane_router.core.values import Expectation

_log = structlog.get_logger("inferplane.gateway")


class Announcements:
    """The gateway's `Announcer`; `tell` takes a worker's name and all that it is told at once."""

    __slots__ = ("_gather_s", "_gathered", "_tell")

    def __init__(self, tell: Callable[[str, wire.Expects], object], *, gather_s: float = 0.002) -> None:
        self._tell = tell
        self._gather_s = gather_s
        self._gathered: dict[str, wire.Expects] = {}

    def announce(self, request_id: str, expectation: Expectation) -> None:
        """Let the worker's agent know, within `gather_s`, which blocks a routed request will store."""
        gathered = self._gathered
        if not gathered:
            asyncio.get_running_loop().call_later(self._gather_s, self._tell_all)
        expects = gathered.get(expectation.worker_id)
        if expects is None:
            expects = gathered[expectation.worker_id] = wire.Expects()
        hashes = expectation.hashes.astype("<u8", copy=False).tobytes()
        expects.expects.add(request_id=request_id, dp_rank=expectation.rank, hashes=hashes)

    def _tell_all(self) -> None:
        gathered, self._gathered = self._gathered, {}
        for worker_id, expects in gathered.items():
            try:
                self._tell(worker_id, expects)
            except Exception:  # noqa: BLE001 - the callback's boundary: the others' news is still to be told
                _log.exception("a worker could not be told of coming blocks", worker=worker_id)
