"""Questions and orders to many agents at once, bounded, and a memory of attempts so that failures are retried in peace.

A load that did not succeed is tried again after a pause that doubles from one attempt to the next; a success, another
revision or another worker begins anew.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from inferplane_operator.adapters.agents import AgentAdapters
from inferplane_operator.reconcile.adapter import AdapterCall, AdapterWorker, Attempt, LoadAdapter, Reported

_S = TypeVar("_S")
_T = TypeVar("_T")
_AT_ONCE: Final = 16
_FIRST_PAUSE_S: Final = 2.0
_LONGEST_PAUSE_S: Final = 300.0


@dataclass(frozen=True, slots=True)
class _Tried:
    times: int
    until: float
    """Not again before this."""


class Exchange:
    """Keeps nothing but attempts; `now` is monotonic."""

    def __init__(self, agents: AgentAdapters, *, now: Callable[[], float], at_once: int = _AT_ONCE) -> None:
        self._agents = agents
        self._now = now
        self._slots = asyncio.Semaphore(at_once)
        self._tried: dict[Attempt, _Tried] = {}

    async def ask(self, workers: Sequence[AdapterWorker]) -> list[AdapterWorker]:
        """Return the workers with what their agents report; those without room for adapters are not asked."""
        asked = await asyncio.gather(*(self._slotted(self._ask, worker) for worker in workers))
        for worker in asked:
            for each in worker.adapters:
                if each.state is Reported.LOADED:
                    self._tried.pop((worker.name, each.name, each.revision), None)
        return list(asked)

    async def tell(self, calls: Iterable[AdapterCall]) -> list[str]:
        """Make the calls; return what agents refused, in words."""
        said = await asyncio.gather(*(self._slotted(self._tell, call) for call in calls))
        return [words for words in said if words]

    def resting(self) -> frozenset[Attempt]:
        """Return the loads that were tried and are not to be tried again yet."""
        now = self._now()
        return frozenset(attempt for attempt, tried in self._tried.items() if tried.until > now)

    def next_try_in_s(self, workers: Iterable[AdapterWorker]) -> float | None:
        names, now = {worker.name for worker in workers}, self._now()
        waits = [tried.until - now for (worker, _, _), tried in self._tried.items() if worker in names]
        return max(0.1, min(waits)) if waits else None

    def forget(self, worker: str) -> None:
        self._drop(lambda attempt: attempt[0] == worker)

    async def _slotted(self, work: Callable[[_S], Awaitable[_T]], subject: _S) -> _T:
        """Begin the work when there is a slot: one that waits and is cancelled leaves no coroutine behind."""
        async with self._slots:
            return await work(subject)

    async def _ask(self, worker: AdapterWorker) -> AdapterWorker:
        if worker.offers is None:
            return worker
        listing = await self._agents.list(worker.address)
        return replace(worker, adapters=listing.adapters, problem=listing.problem)

    async def _tell(self, call: AdapterCall) -> str:
        worker = call.worker
        if isinstance(call, LoadAdapter):
            self._note((worker.name, call.adapter.name, call.adapter.revision))
            said = await self._agents.load(worker.address, call.adapter)
        else:
            self._drop(lambda attempt: attempt[:2] == (worker.name, call.name))
            said = await self._agents.unload(worker.address, call.name)
        return f"{worker.name}: {said}" if said else ""

    def _note(self, attempt: Attempt) -> None:
        times = self._tried[attempt].times + 1 if attempt in self._tried else 1
        self._drop(lambda other: other[:2] == attempt[:2])
        pause = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2 ** (times - 1))
        self._tried[attempt] = _Tried(times, self._now() + pause)

    def _drop(self, which: Callable[[Attempt], bool]) -> None:
        for attempt in [attempt for attempt in self._tried if which(attempt)]:
            del self._tried[attempt]
