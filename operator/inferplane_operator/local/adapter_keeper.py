"""Keeps the adapters of a local instance on its workers: the operator's own rules, asked over and over.

A task of its own, since agents may take their time; the runner's loop shows it what is wanted and who serves, and reads
what it last saw.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import structlog

from inferplane_api.v1alpha1.conditions import Reason
from inferplane_operator.adapters import AgentAdapters, Exchange
from inferplane_operator.local.blueprint import LocalAdapter
from inferplane_operator.local.status import AdapterStatus
from inferplane_operator.reconcile.adapter import AdapterWorker, WantedAdapter, calls_for
from inferplane_operator.reconcile.adapter_status import AdapterPicture, on_workers, reason_of

_SOON_S = 0.2
_CALM_S = 5.0
_log: structlog.stdlib.BoundLogger = structlog.get_logger("inferplane.local.adapters")


@dataclass(frozen=True, slots=True)
class _Shown:
    """What the runner's loop said last."""

    adapters: Sequence[LocalAdapter] = ()
    workers: Sequence[AdapterWorker] = ()
    service: str = ""

    @property
    def wanted(self) -> list[WantedAdapter]:
        return [each.wanted for each in self.adapters if not each.problem]


class AdapterKeeper:
    """Runs until cancelled; `on_change` hears when a status changed."""

    def __init__(self, agents: AgentAdapters, *, now: Callable[[], float], on_change: Callable[[], None]) -> None:
        self._exchange = Exchange(agents, now=now)
        self._on_change = on_change
        self._shown = _Shown()
        self._asked: Sequence[AdapterWorker] = ()
        self._news = asyncio.Event()

    def show(self, service: str, adapters: Sequence[LocalAdapter], workers: Sequence[AdapterWorker]) -> None:
        """Take what is wanted, and the workers that serve now."""
        shown = _Shown(adapters, workers, service)
        if shown == self._shown:
            return
        for gone in {worker.name for worker in self._shown.workers} - {worker.name for worker in workers}:
            self._exchange.forget(gone)
        self._shown = shown
        self._news.set()

    def statuses(self) -> tuple[AdapterStatus, ...]:
        return tuple(self._status(each) for each in self._shown.adapters)

    async def run(self) -> None:
        while True:
            pause_s = await self._round(self._shown)
            try:
                async with asyncio.timeout(pause_s):
                    await self._news.wait()
            except TimeoutError:
                continue
            self._news.clear()

    async def _round(self, shown: _Shown) -> float:
        asked = await self._exchange.ask(shown.workers)
        calls = calls_for(shown.wanted, asked, resting=self._exchange.resting())
        for words in await self._exchange.tell(calls):
            _log.warning("an agent refused an adapter", reason=words)
        if asked != self._asked:
            self._asked = asked
            self._on_change()
        settled = all(status.loaded_on == status.wanted_on for status in self.statuses())
        return _CALM_S if settled and not calls else _SOON_S

    def _status(self, adapter: LocalAdapter) -> AdapterStatus:
        wanted, shown = adapter.wanted, self._shown
        seen = {worker.name: worker for worker in self._asked}
        workers = [seen.get(worker.name, worker) for worker in shown.workers]
        placed = [] if adapter.problem else on_workers(wanted, shown.wanted, workers)
        picture = AdapterPicture({}, shown.service, wanted, workers=placed)
        reason, message = reason_of(picture)
        return AdapterStatus(
            name=wanted.key,
            served_name=wanted.name,
            revision=wanted.revision,
            loaded_on=picture.loaded,
            wanted_on=len(placed),
            ready=not adapter.problem and reason is Reason.ADAPTER_LOADED,
            failed=bool(adapter.problem) or reason in (Reason.ADAPTER_FAILED, Reason.ADAPTERS_FULL),
            message=adapter.problem or message,
        )
