"""One service planned: look, gather, step, carry out, again and again.

Whatever cannot be done in one round (the world cannot be seen, a scale is refused) is said and tried in the next; the
plan in force stays.  A request that comes while nothing serves is not made to wait for the round's end.
"""

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from inferplane_planner.act.journal import Decided, Journal
from inferplane_planner.act.resuming import resumed
from inferplane_planner.act.world import Findings, Sight, World, WorldError
from inferplane_planner.core.contract import WINDOW_S, Observations, Plan, State
from inferplane_planner.core.step import step
from inferplane_planner.observe.arrivals import Arrivals
from inferplane_planner.observe.events import Finished
from inferplane_planner.observe.notices import Said, Told, tell_nobody
from inferplane_planner.observe.stream import Follow, follow
from inferplane_planner.observe.window import Window
from inferplane_runtime.lifecycle import spawn

_log = structlog.get_logger("inferplane.planner")
_WAKE_AGAIN_S: Final = 1.0


class Planning:
    """`now` is the planner's clock; `decided` gets each plan, routers hear of it through `told`."""

    def __init__(
        self,
        world: World,
        *,
        now: Callable[[], float],
        period_s: float,
        journal: Journal,
        decided: Callable[[Sight, Observations, Plan], None] = lambda _sight, _seen, _plan: None,
        follow: Follow = follow,
        told: Told = tell_nobody,
    ) -> None:
        self._world = world
        self._now = now
        self._period_s = period_s
        self._journal = journal
        self._decided = decided
        self._follow = follow
        self._told = told
        self._state = State()
        self._first = True
        self._arrivals = Arrivals(period_s, now())
        self._window = Window(WINDOW_S, now())
        self._streams: dict[str, asyncio.Task[None]] = {}
        self._asleep = False
        self._wake = asyncio.Event()
        self.problem = "nothing was planned yet"
        """Why there is no plan at present; empty when there is."""

    async def run(self) -> None:
        """Plan until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                await self.round(group)
                await self._pause()

    async def round(self, group: asyncio.TaskGroup) -> None:
        """Look, plan, act once."""
        try:
            sight = await self._world.look()
            self._listen_to(sight, group)
            found = self._find(sight)
            if found.plan is not None:
                self._told(group, Said(sight.routers, sight.service, found.plan, sight.acting))
            await self._carry_out(sight, found)
            self.problem = ""
        except WorldError as error:
            if str(error) != self.problem:
                _log.warning("cannot plan", problem=str(error))
            self.problem = str(error)

    # What streams tell.

    def heard(self, source: str) -> None:
        self._arrivals.hear(source, self._now())

    def lost(self, source: str) -> None:
        self._arrivals.lose(source, self._now())

    def arrived(self, request_id: str) -> None:
        if self._arrivals.arrive(request_id, self._now()) and self._asleep:
            self._wake.set()

    def finished(self, request: Finished) -> None:
        self._window.finish(request, self._now())

    # Inside.

    def _listen_to(self, sight: Sight, group: asyncio.TaskGroup) -> None:
        """Follow the routers that there are, and no others."""
        self._window.length_s = sight.window_s
        for source in [source for source in self._streams if source not in sight.routers]:
            self._streams.pop(source).cancel()
            self._arrivals.forget(source, self._now())
        for source in sight.routers:
            if source not in self._streams:
                self._streams[source] = spawn(group, f"observe {source}", self._follow(source, sight.service, self))

    def _find(self, sight: Sight) -> Findings:
        now = self._now()
        seen = self._gather(sight, now)
        plan = self._plan(sight, seen, now) if sight.planned else None
        return Findings(plan, seen.measured, self._window.trust(now))

    def _plan(self, sight: Sight, seen: Observations, now: float) -> Plan:
        first, self._first = self._first, False
        if first:
            self._state = self._begin(sight.service, now)
        known = self._state.forecaster
        self._state, plan = step(self._state, seen, sight.spec, now)
        self._asleep = sight.decode.ready == 0
        try:
            learnt = known.learnt if known is not None else None
            self._journal.write(Decided(sight.service, now, first, seen, sight.spec, plan, learnt))
        except OSError as error:
            _log.warning("a decision was not recorded", problem=str(error))
        self._decided(sight, seen, plan)
        return plan

    def _begin(self, service: str, now: float) -> State:
        try:
            return resumed(self._journal.last(service), now)
        except (OSError, ValueError) as error:  # a RecordError is a ValueError
            _log.warning("the forecast begins anew", problem=f"the last decision cannot be read: {error}")
            return State()

    def _gather(self, sight: Sight, now: float) -> Observations:
        counts = self._arrivals.take(now)
        return Observations(
            decode=sight.decode,
            prefill=sight.prefill,
            counts=counts,
            sample=self._window.sample(now),
            burst=self._arrivals.burst,
            queued=self._arrivals.open_requests if sight.decode.ready == 0 else 0,
            blind=self._arrivals.blind,
            measured=self._window.measured(now, sight.spec.objective),
            learned=self._window.learned(now, decode_workers=sight.decode.ready),
            start_ups_s=sight.start_ups_s,
        )

    async def _carry_out(self, sight: Sight, found: Findings) -> None:
        await self._world.tell(found, sight)
        plan = found.plan
        if plan is None or not sight.acting:
            return
        changes = [("prefill", sight.prefill.wanted, plan.prefill), ("decode", sight.decode.wanted, plan.decode)]
        changes.sort(key=lambda change: change[1] - change[2])  # what grows first
        for role, before, after in changes:
            if before != after:
                _log.info("scaling", role=role, before=before, after=after, reason=plan.reason)
                await self._world.scale(role, after)

    async def _pause(self) -> None:
        """Wait for the next round, or for somebody who asks while nothing serves."""
        begin = self._now()
        try:
            async with asyncio.timeout(self._period_s):
                await self._wake.wait()
        except TimeoutError:
            return
        self._wake.clear()
        await asyncio.sleep(max(0.0, min(_WAKE_AGAIN_S, self._period_s) - (self._now() - begin)))
