"""One router's Observe stream, followed for as long as the router is to be heard."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, Final, Protocol

import grpc
import structlog

from inferplane_api.proto import router_pb2 as pb
from inferplane_api.proto import router_pb2_grpc
from inferplane_planner.observe.events import Finished
from inferplane_planner.observe.wire import finished

_log = structlog.get_logger("inferplane.planner")
_OPTIONS: Final = (
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.max_reconnect_backoff_ms", 2_000),
)
_RETRY_S: Final = 1.0


class Listener(Protocol):
    """Who is told what is heard of a service."""

    def heard(self, source: str) -> None: ...

    def lost(self, source: str) -> None: ...

    def arrived(self, request_id: str) -> None: ...

    def finished(self, request: Finished) -> None: ...


class Follow(Protocol):
    async def __call__(self, source: str, service: str, listener: Listener, /) -> None:
        """Tell `listener` what one router tells of a service, until cancelled."""
        ...


Observe = Callable[[str, str], AsyncIterator[pb.Observation | None]]
"""Address and service ("" stands for all) to observations; None first, when the router has accepted."""


async def follow(source: str, service: str, listener: Listener, *, observe: "Observe | None" = None) -> None:
    """Tell `listener` what one router tells, until cancelled; a broken stream is opened anew."""
    listener.lost(source)
    while True:
        try:
            async for observation in (observe or observations)(source, service):
                _tell(observation, source, listener)
        except grpc.aio.AioRpcError as error:
            _log.info("a router is not heard", router=source, code=error.code().name)
        finally:
            listener.lost(source)
        await asyncio.sleep(_RETRY_S)


def _tell(observation: pb.Observation | None, source: str, listener: Listener) -> None:
    if observation is None:
        listener.heard(source)
    elif observation.HasField("arrival"):
        listener.arrived(observation.arrival.request_id)
    elif observation.HasField("finished"):
        request = finished(observation.finished)
        if request is not None:
            listener.finished(request)


async def observations(source: str, service: str) -> AsyncIterator[pb.Observation | None]:
    """Open the stream.  Raises AioRpcError when it cannot be opened or breaks."""
    make_stub: Any = router_pb2_grpc.RouterStub  # generated without types
    async with grpc.aio.insecure_channel(source, options=_OPTIONS) as channel:
        # A router sends nothing before the first request: that it listens is all that can be known.
        await channel.channel_ready()
        call = make_stub(channel).Observe(pb.ObserveRequest(component="planner", services=[service] if service else []))
        yield None
        async for observation in call:
            yield observation
