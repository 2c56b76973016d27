"""One stream a router, however many services are planned by what it tells.

Trade-off.  What routers tell of services that nobody listens to is read and dropped: a request is some hundred bytes.
"""

import asyncio
from dataclasses import dataclass, field

import grpc
import structlog

from inferplane_api.proto import router_pb2 as pb
from inferplane_planner.observe.stream import Listener, Observe, observations
from inferplane_planner.observe.wire import finished
from inferplane_runtime.lifecycle import spawn

_log = structlog.get_logger("inferplane.planner")
_RETRY_S = 1.0


@dataclass(slots=True)
class _Line:
    """Who listens to one router: by service, "namespace/name"."""

    listeners: dict[str, Listener] = field(default_factory=dict[str, Listener])
    up: bool = False
    task: "asyncio.Task[None] | None" = None


class SharedStreams:
    """Streams live in `group`; a router's ends when nobody listens any more."""

    def __init__(self, group: asyncio.TaskGroup, *, observe: Observe = observations, retry_s: float = _RETRY_S) -> None:
        self._group = group
        self._observe = observe
        self._retry_s = retry_s
        self._lines: dict[str, _Line] = {}

    @property
    def sources(self) -> tuple[str, ...]:
        return tuple(sorted(self._lines))

    async def follow(self, source: str, service: str, listener: Listener, /) -> None:
        """Tell `listener` what one router tells of a service, until cancelled."""
        line = self._lines.setdefault(source, _Line())
        line.listeners[service] = listener
        (listener.heard if line.up else listener.lost)(source)
        if line.task is None:
            line.task = spawn(self._group, f"observe {source}", self._run(source, line))
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            del line.listeners[service]
            if not line.listeners:
                line.task.cancel()
                self._lines.pop(source, None)

    async def _run(self, source: str, line: _Line) -> None:
        while True:
            try:
                async for observation in self._observe(source, ""):
                    _pass_on(observation, source, line)
            except grpc.aio.AioRpcError as error:
                _log.info("a router is not heard", router=source, code=error.code().name)
            finally:
                line.up = False
                for listener in tuple(line.listeners.values()):
                    listener.lost(source)
            await asyncio.sleep(self._retry_s)


def _pass_on(observation: pb.Observation | None, source: str, line: _Line) -> None:
    if observation is None:
        line.up = True
        for listener in tuple(line.listeners.values()):
            listener.heard(source)
    elif observation.HasField("arrival"):
        arrival = observation.arrival
        if (asked := line.listeners.get(f"{arrival.namespace}/{arrival.service}")) is not None:
            asked.arrived(arrival.request_id)
    elif observation.HasField("finished"):
        record = observation.finished
        answered = line.listeners.get(f"{record.namespace}/{record.service}")
        request = None if answered is None else finished(record)
        if answered is not None and request is not None:
            answered.finished(request)
