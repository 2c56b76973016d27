"""One worker's stream: connect, say hello, pass on what comes, reconnect when it ends.

Problem: agents and networks come and go, and hundreds of routers must not reconnect in one rhythm.
Idea: one task per worker with exponential back-off and full jitter; a stream that is silent for several heartbeats is
dead, whatever TCP believes.
Trade-off: what the core wants announced is dropped when an agent reads too slowly, since it only sharpens predictions.
Invariant: between `worker_connected` and `worker_lost` the core hears every message in order; gaps are the core's to
find, which then asks for a snapshot through here.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random
from typing import Final

import structlog
from google.protobuf.message import DecodeError

from inferplane_api.proto import worker_pb2 as wire
from inferplane_router.core.facade import WorkerFeed
from inferplane_router.rpc.dialing import CallFailedError, DialedCall, dialed
from inferplane_runtime.clock import Clock

PROTOCOL_VERSION: Final = 1
METHOD: Final = "/inferplane.v1.WorkerStream/Subscribe"
_log = structlog.get_logger("inferplane.streams")


@dataclass(frozen=True, slots=True)
class StreamSettings:
    """Times in seconds."""

    connect_timeout_s: float = 5.0
    silence_s: float = 10.0
    """Agents send a heartbeat every two seconds."""
    first_delay_s: float = 0.1
    longest_delay_s: float = 5.0


class StreamObserver:
    """What is told about streams; the default hears nothing."""

    def connected(self, worker_id: str) -> None: ...

    def lost(self, worker_id: str) -> None: ...

    def failed(self, worker_id: str) -> None: ...

    def heard(self, worker_id: str, message: wire.WorkerMessage) -> None: ...


class SilentStreamError(Exception):
    """No heartbeat came."""


class WorkerStream:
    """Keeps one agent's stream open for as long as `run` runs."""

    def __init__(
        self,
        worker_id: str,
        address: str,
        *,
        hello: wire.Hello,
        feed: WorkerFeed,
        clock: Clock,
        rng: Random,
        observer: StreamObserver,
        settings: StreamSettings,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._worker_id = worker_id
        self._address = address
        self._hello = hello
        self._feed = feed
        self._clock = clock
        self._rng = rng
        self._observer = observer
        self._settings = settings
        self._sleep = sleep
        self._call: DialedCall | None = None
        self._heard_at = 0.0
        self.tried = False
        """A first attempt has succeeded or failed."""

    def tell(self, message: wire.SubscriberMessage) -> bool:
        """Send a message to the agent; False when there is no stream or it is congested."""
        call = self._call
        if call is None or call.congested:
            return False
        call.send(message.SerializeToString())
        return True

    async def run(self) -> None:
        """Stay connected until cancelled."""
        failures = 0
        while True:
            began = self._clock.monotonic()
            await self._attempt()
            self.tried = True
            if self._clock.monotonic() - began > self._settings.longest_delay_s:
                failures = 0  # it held: what comes is a new disturbance
            ceiling = min(self._settings.longest_delay_s, self._settings.first_delay_s * 2**failures)
            failures = min(failures + 1, 16)
            await self._sleep(self._rng.uniform(0.0, ceiling))

    async def _attempt(self) -> None:
        try:
            async with dialed(METHOD, self._address, self._take, timeout_s=self._settings.connect_timeout_s) as call:
                await self._converse(call)
        except TimeoutError:
            self._failed("no connection in time")
        except SilentStreamError:
            self._failed("no heartbeat")
        except CallFailedError as error:
            self._failed(str(error))

    def _failed(self, reason: str) -> None:
        self._observer.failed(self._worker_id)
        _log.info("worker stream down", worker=self._worker_id, address=self._address, reason=reason)

    async def _converse(self, call: DialedCall) -> None:
        self._call, self._heard_at = call, asyncio.get_running_loop().time()
        call.send(wire.SubscriberMessage(hello=self._hello).SerializeToString())
        self._feed.worker_connected(self._worker_id, self._clock.monotonic())
        self._observer.connected(self._worker_id)
        try:
            await self._until_over(call)
        finally:
            self._call = None
            self._feed.worker_lost(self._worker_id, self._clock.monotonic())
            self._observer.lost(self._worker_id)

    async def _until_over(self, call: DialedCall) -> None:
        loop = asyncio.get_running_loop()
        while not call.over.done():
            left_s = self._heard_at + self._settings.silence_s - loop.time()
            if left_s <= 0:
                raise SilentStreamError
            await asyncio.wait((call.over,), timeout=left_s)
        call.over.result()

    def _take(self, data: bytes) -> None:
        """Pass one message on, and ask for a snapshot where it shows that one is missing."""
        call = self._call
        if call is None:  # nobody has greeted yet
            return
        try:
            message = wire.WorkerMessage.FromString(data)
        except DecodeError as error:
            call.hang_up(f"a message that cannot be read: {error}")
            return
        self.tried, self._heard_at = True, asyncio.get_running_loop().time()
        resync = self._feed.on_worker_message(self._worker_id, message, self._clock.monotonic())
        self._observer.heard(self._worker_id, message)
        if resync is not None:
            self.tell(wire.SubscriberMessage(resync=wire.Resync(dp_rank=resync.rank, reason=resync.reason)))
