"""The console of one router process: it takes samples while the process lives, and answers pages from them.

A router may have several processes, and a browser's connection leads to any of them: who is asked asks the others, and
shows one picture of all.  What is missing because one did not answer is said in it.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

import orjson
from google.protobuf.json_format import MessageToDict

from inferplane_api.proto.router_pb2 import DecisionRecord, PlanNotice
from inferplane_router.console.history import History, Tally, tick
from inferplane_router.console.merging import DECISIONS, PREFIXES, shown, together
from inferplane_router.console.pages import STATE, Pages, json_page, no_such_request, requested
from inferplane_router.console.picture import Document, Seen, picture, sample
from inferplane_router.console.plans import Plans
from inferplane_router.core.router import RouterCore
from inferplane_router.gateway.meters import GatewayMeters, ServiceMeters
from inferplane_runtime.clock import Clock
from inferplane_runtime.http.api import Exchange, Request, Response
from inferplane_runtime.http.errors import json_error

_SPARE: Final = 3
"""Times as many prefixes as are shown: what is common in all processes may be rare in each."""
_MOST_ASKING: Final = 32
_READABLE: Final = (b"GET", b"HEAD")


class OtherProcesses(Protocol):
    """Whoever else routes in the name of this router."""

    async def explain(self, request_id: str, /) -> DecisionRecord | None: ...

    async def pictures(self) -> list[Document]:
        """Return the `part` of each other process's console that answers."""
        ...


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a console looks at."""

    core: RouterCore
    meters: GatewayMeters
    clock: Clock
    unready: Callable[[], str]
    others: OtherProcesses
    processes: int = 1
    """Gateway processes that the router has, with this one."""


class Console:
    """Has the last hour, and shows it."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._history = History()
        self._plans = Plans()
        self._tick = -1
        self._pages = Pages()
        self._asking: set[asyncio.Task[None]] = set()

    def answer(self, request: Request, exchange: Exchange) -> bool:
        """Answer a request if it is for the console; say whether it was."""
        wanted = requested(request.path)
        page = self._pages.answer(request.path)
        if page is None and wanted is None and request.path != STATE:
            return False
        if request.method not in _READABLE:
            exchange.respond(json_error(405, "the console takes GET"))
        elif page is not None:
            exchange.respond(page)
        elif len(self._asking) >= _MOST_ASKING:
            exchange.respond(json_error(503, "too many ask for the console at once"))
        else:
            task = asyncio.get_running_loop().create_task(self._look_up(wanted, exchange), name="console")
            self._asking.add(task)
            task.add_done_callback(self._asking.discard)
        return True

    def keep_sampling(self) -> None:
        """Take a sample where another one is due; to be called often."""
        at = self._around.clock.wall()
        if tick(at) == self._tick:
            return
        self._tick = tick(at)
        statistics = self._around.core.statistics()
        tallies = {it.service: _tally(it) for it in self._around.meters.services()}
        self._history.add(sample(statistics, tallies, at))
        self._plans.keep((it.namespace, it.name) for it in statistics.services)

    def planned(self, notice: PlanNotice) -> None:
        """Take what a planner has decided."""
        self._plans.told(notice)

    def part(self) -> bytes:
        """Return what this process adds to the picture of the whole router, as JSON."""
        return orjson.dumps(self._own())

    async def picture(self) -> Document:
        """Return what the page is drawn from."""
        others = await self._around.others.pictures()
        return shown(together(self._own(), others), answered=1 + len(others), processes=self._around.processes)

    async def close(self) -> None:
        """Let nobody wait who has asked."""
        asking = tuple(self._asking)
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)

    # Inside.

    def _own(self) -> Document:
        core = self._around.core
        return picture(
            Seen(
                core.statistics(),
                self._history,
                self._plans,
                core.recent(DECISIONS),
                core.hot_prefixes(PREFIXES * _SPARE),
                self._around.unready(),
            )
        )

    async def _look_up(self, request_id: str | None, exchange: Exchange) -> None:
        response = json_page(await self.picture()) if request_id is None else await self._request(request_id)
        if not exchange.closed:
            exchange.respond(response)

    async def _request(self, request_id: str) -> Response:
        record = self._around.core.explain(request_id) or await self._around.others.explain(request_id)
        return no_such_request(request_id) if record is None else json_page(MessageToDict(record))


def _tally(meters: ServiceMeters) -> Tally:
    return Tally(
        ttft_met=meters.streams("ttft", met=True),
        ttft_missed=meters.streams("ttft", met=False),
        tpot_met=meters.streams("tpot", met=True),
        tpot_missed=meters.streams("tpot", met=False),
        ttft=tuple(meters.ttft.counts),
        tpot=tuple(meters.tpot.counts),
    )
