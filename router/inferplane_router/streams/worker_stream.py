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

import grpc
import structlog

from inferplane_api.proto import worker_pb2 as wire
from inferplane_router.core.facade import WorkerFeed
from inferplane_runtime.clock import Clock

PROTOCOL_VERSION: Final = 1
METHOD: Final = "/inferplane.v1.WorkerStream/Subscribe"
_QUEUE: Final = 1024
OPTIONS: Final = (
    ("grpc.max_receive_message_length", 64 * 1024 * 1024),
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.enable_retries", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    # An agent listens before its Pod can be ready: whoever sees the Pod ready and asks shall not be told that there is
    # no worker because the next attempt to reach it is a second away.
    ("grpc.max_reconnect_backoff_ms", 400),
    ("grpc.use_local_subchannel_pool", 1),
)
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
        self._outbox: asyncio.Queue[wire.SubscriberMessage] | None = None
        self.tried = False
        """A first attempt has succeeded or failed."""

    def tell(self, message: wire.SubscriberMessage) -> bool:
        """Queue a message for the agent; False when there is no stream or it is congested."""
        if self._outbox is None or self._outbox.full():
            return False
        self._outbox.put_nowait(message)
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
            async with grpc.aio.insecure_channel(self._address, options=OPTIONS) as channel:
                async with asyncio.timeout(self._settings.connect_timeout_s):
                    await channel.channel_ready()
                await self._converse(channel)
        except TimeoutError:
            self._failed("no connection in time")
        except SilentStreamError:
            self._failed("no heartbeat")
        except grpc.aio.AioRpcError as error:
            self._failed(f"{error.code().name}: {error.details()}")

    def _failed(self, reason: str) -> None:
        self._observer.failed(self._worker_id)
        _log.info("worker stream down", worker=self._worker_id, address=self._address, reason=reason)

    async def _converse(self, channel: grpc.aio.Channel) -> None:
        subscribe = channel.stream_stream(
            METHOD,
            request_serializer=_serialise,
            response_deserializer=wire.WorkerMessage.FromString,
        )
        call = subscribe()
        outbox: asyncio.Queue[wire.SubscriberMessage] = asyncio.Queue(_QUEUE)
        await call.write(wire.SubscriberMessage(hello=self._hello))
        self._outbox = outbox
        self._feed.worker_connected(self._worker_id, self._clock.monotonic())
        self._observer.connected(self._worker_id)
        writer = asyncio.create_task(_write(call, outbox), name=f"stream writer {self._worker_id}")
        try:
            await self._listen(call, outbox)
        finally:
            self._outbox = None
            writer.cancel()
            await asyncio.gather(writer, return_exceptions=True)
            call.cancel()
            self._feed.worker_lost(self._worker_id, self._clock.monotonic())
            self._observer.lost(self._worker_id)

    async def _listen(self, call: "_Call", outbox: asyncio.Queue[wire.SubscriberMessage]) -> None:
        while True:
            try:
                async with asyncio.timeout(self._settings.silence_s):
                    message = await call.read()
            except TimeoutError:
                raise SilentStreamError from None
            if not isinstance(message, wire.WorkerMessage):
                return  # the agent ended the stream
            self.tried = True
            resync = self._feed.on_worker_message(self._worker_id, message, self._clock.monotonic())
            self._observer.heard(self._worker_id, message)
            if resync is not None and not outbox.full():
                asked = wire.Resync(dp_rank=resync.rank, reason=resync.reason)
                outbox.put_nowait(wire.SubscriberMessage(resync=asked))


_Call = grpc.aio.StreamStreamCall[wire.SubscriberMessage, wire.WorkerMessage]


def _serialise(message: wire.SubscriberMessage) -> bytes:
    return message.SerializeToString()


async def _write(call: _Call, outbox: asyncio.Queue[wire.SubscriberMessage]) -> None:
    """Send what is queued, in order."""
    while True:
        await call.write(await outbox.get())
