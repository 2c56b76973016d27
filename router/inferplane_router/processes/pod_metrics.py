"""`/metrics` of a router of several processes: asked of each when somebody asks."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from inferplane_router.processes.channel import Channel
from inferplane_router.processes.errors import ChannelLostError
from inferplane_router.processes.frames import Question
from inferplane_router.processes.merging import Counted, Merged, counted, merge, read
from inferplane_runtime.http.api import Exchange, Headers, Request, Response
from inferplane_runtime.http.errors import json_error

_CONTENT: Final = Headers(((b"content-type", CONTENT_TYPE_LATEST.encode()),))
_DEADLINE_S: Final = 2.0


class PodMetrics:
    """An HTTP handler."""

    def __init__(
        self,
        registry: CollectorRegistry,
        *,
        refresh: Callable[[], None],
        gateways: Callable[[], Iterable[Channel]],
        group: asyncio.TaskGroup,
    ) -> None:
        self._registry = registry
        self._refresh = refresh
        self._gateways = gateways
        self._group = group

    def __call__(self, request: Request, exchange: Exchange) -> None:
        if request.path != b"/metrics":
            exchange.respond(json_error(404, "only /metrics is served here"))
            return
        self._group.create_task(self._answer(exchange), name="metrics")

    async def _answer(self, exchange: Exchange) -> None:
        found = await asyncio.gather(*(_asked(each) for each in self._gateways()))
        self._refresh()
        merged = CollectorRegistry()
        merged.register(Merged(merge(counted(self._registry), [each for each in found if each])))
        exchange.respond(Response(200, _CONTENT, generate_latest(merged)))


async def _asked(gateway: Channel) -> list[Counted]:
    """Return what one gateway counts; nothing of one that is gone."""
    try:
        return read(await gateway.ask(Question.METRICS, deadline_s=_DEADLINE_S))
    except ChannelLostError:
        return []
