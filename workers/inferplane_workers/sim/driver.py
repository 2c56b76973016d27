"""Real time for the simulated core: one timer at the next event, and the I/O that its events ask for.

The invariant: the core is only ever told times that rise, in engine seconds (wall seconds times the speed); between two
events nothing runs.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Protocol

import structlog

from inferplane_api.sim_faults import SimFaultKind
from inferplane_engine.sim.engine import SimEngine
from inferplane_engine.sim.events import (
    CacheChanged,
    EngineDied,
    EngineRequest,
    Event,
    Finished,
    FinishReason,
    Gauges,
    PullWanted,
    RemoteSource,
    Tokens,
)
from inferplane_engine.sim.faults import Fault, FaultPlan
from inferplane_engine.timing import TimingProfile, transfer_s
from inferplane_workers.sim import side_channel
from inferplane_workers.sim.publisher import EventPublisher

_log = structlog.get_logger("inferplane.sim")


class Sink(Protocol):
    """Where one request's output goes."""

    def on_output(self, tokens: tuple[int, ...], finished: Finished | None, /) -> None:
        """Take new tokens, the end, or both at once."""
        ...


class EngineDriver:
    """Drives one core (one data-parallel rank)."""

    def __init__(
        self,
        engine: SimEngine,
        profile: TimingProfile,
        *,
        speed: float,
        faults: FaultPlan,
        on_death: Callable[[str], None],
        on_crash: Callable[[], None],
        publisher: EventPublisher | None = None,
    ) -> None:
        self.engine = engine
        self.publisher = publisher
        self._profile = profile
        self._speed = speed
        self._faults = faults
        self._on_death = on_death
        self._on_crash = on_crash
        self._loop = asyncio.get_running_loop()
        self._zero = self._loop.time()
        self._timer: asyncio.TimerHandle | None = None
        self._sinks: dict[str, Sink] = {}
        self._sources: dict[str, RemoteSource] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._steps = 0
        self._advancing = False
        self.dead = False

    def now(self) -> float:
        """Engine seconds."""
        return (self._loop.time() - self._zero) * self._speed

    @property
    def load(self) -> int:
        return len(self._sinks)

    def gauges(self) -> Gauges:
        self._advance()
        return self.engine.gauges()

    def submit(self, request: EngineRequest, sink: Sink) -> None:
        """Start a request; raises ValueError when the core will not take it."""
        self.engine.submit(request, self.now())
        self._sinks[request.request_id] = sink
        if request.source is not None:
            self._sources[request.request_id] = request.source
        self._arm()

    def stop(self, request_id: str) -> None:
        """End a request early; its sink still hears of the end."""
        self.engine.abort(request_id, self.now())
        self._arm()

    def drop(self, request_id: str) -> None:
        """Forget a request; its sink hears nothing more."""
        if self._sinks.pop(request_id, None) is not None:
            self.stop(request_id)

    def reset_prefix_cache(self) -> bool:
        return self.engine.reset_prefix_cache(self.now())

    def tell(self, change: Callable[[SimEngine, float], None]) -> None:
        """Let something from outside change the core at the present time."""
        change(self.engine, self.now())
        self._arm()

    def meet(self, fault: Fault) -> None:
        """Suffer a fault of the whole engine."""
        if fault.kind is SimFaultKind.CRASH:
            self._on_crash()
        elif fault.kind is SimFaultKind.HANG:
            self.engine.hang(self.now())
            if fault.duration_s:
                self._loop.call_later(fault.duration_s / self._speed, self.tell, _wake)
        elif fault.kind is SimFaultKind.SLOW:
            self.engine.slow(fault.factor, self.now())
            if fault.duration_s:
                self._loop.call_later(fault.duration_s / self._speed, self.tell, _normal_speed)

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self.publisher is not None:
            await self.publisher.close()

    # Inside.

    def _arm(self) -> None:
        """Set the timer to the core's next event."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._advancing:
            return
        at = self.engine.next_event_at()
        if at is not None:
            self._timer = self._loop.call_at(self._zero + at / self._speed, self._advance)

    def _advance(self) -> None:
        if self.dead or self._advancing:
            return
        self._advancing = True
        now = self.now()
        self._faults.tick(now)
        events = self.engine.advance(now)
        for event, following in zip(events, [*events, None][1:], strict=True):
            self._handle(event, following)
        self._advancing = False
        self._meet_step_faults(now)
        self._arm()

    def _meet_step_faults(self, now: float) -> None:
        steps = self.engine.gauges().steps
        if steps == self._steps:
            return
        new, self._steps = steps - self._steps, steps
        for fault in self._faults.on_steps(new, now):
            self.meet(fault)

    def _handle(self, event: Event, following: Event | None) -> None:
        if isinstance(event, Tokens):
            if isinstance(following, Finished) and following.request_id == event.request_id:
                self._ended(following, event.tokens)
            elif (sink := self._sinks.get(event.request_id)) is not None:
                sink.on_output(event.tokens, None)
        elif isinstance(event, Finished):
            self._ended(event, ())
        elif isinstance(event, CacheChanged):
            if self.publisher is not None:
                self.publisher.publish(event.events)
        elif isinstance(event, PullWanted):
            self._sources.pop(event.request_id, None)
            self._start(self._pull(event), f"pull-{event.request_id}")
        elif isinstance(event, EngineDied):
            self.dead = True
            self._on_death(event.reason)

    def _ended(self, event: Finished, tokens: tuple[int, ...]) -> None:
        source = self._sources.pop(event.request_id, None)
        if source is not None and event.reason is FinishReason.ABORT:
            # Never scheduled: tell the producer, or it would hold the blocks for the whole lease.
            self._start(_confirm(source), f"release-{event.request_id}")
        sink = self._sinks.pop(event.request_id, None)
        if sink is not None:
            sink.on_output(tokens, event)

    def _start(self, work: Coroutine[object, object, None], name: str) -> None:
        task = self._loop.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _pull(self, wanted: PullWanted) -> None:
        """Fetch a request's blocks and hand them to the core."""
        name = wanted.request_id
        try:
            contents = await side_channel.fetch(wanted.source, wanted.blocks)
        except side_channel.PeerRefusedError as refusal:
            reason = f"transfer of {name}: {refusal}"
            self.tell(lambda engine, now: engine.die(reason, now))
            return
        except (OSError, TimeoutError, ValueError) as error:
            detail = f"KV load of {name} failed: {error}"
            _log.warning("kv load failed", request=name, error=str(error))
            self.tell(lambda engine, now: engine.pull_failed(name, now, detail))
            return
        damaged = self._faults.corrupt(_padded(contents), self.now())
        self.tell(lambda engine, now: engine.pulled(name, damaged, now))
        await asyncio.sleep(transfer_s(self._profile, tokens=float(wanted.tokens)) / self._speed)
        await _confirm(wanted.source)

    async def keep_leases(self, period_s: float) -> None:
        """Renew the leases of requests that wait for their turn to pull."""
        while True:
            await asyncio.sleep(period_s)
            by_peer: dict[tuple[str, int], list[str]] = {}
            for source in self._sources.values():
                by_peer.setdefault((source.host, source.port), []).append(source.request_id)
            for (host, port), names in by_peer.items():
                try:
                    await side_channel.heartbeat(host, port, names)
                except (OSError, TimeoutError) as error:
                    _log.warning("heartbeat failed", peer=f"{host}:{port}", error=str(error))


async def _confirm(source: RemoteSource) -> None:
    try:
        await side_channel.confirm(source)
    except (OSError, TimeoutError) as error:
        _log.warning("confirmation failed", request=source.request_id, error=str(error))


def _padded(contents: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, ...], ...]:
    """Fill up groups with a window: the blocks missing at the front are outside of it."""
    length = max(len(group) for group in contents)
    return tuple((0,) * (length - len(group)) + group for group in contents)


def _wake(engine: SimEngine, now: float) -> None:
    engine.wake(now)


def _normal_speed(engine: SimEngine, now: float) -> None:
    engine.slow(1.0, now)
