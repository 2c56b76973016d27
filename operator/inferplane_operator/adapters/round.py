"""One round for one service: ask its workers, decide, tell them, and say what statuses shall be."""

from collections.abc import Mapping

import structlog

from inferplane_operator.adapters.exchange import Exchange
from inferplane_operator.reconcile.adapter import AdapterWorker
from inferplane_operator.reconcile.service_adapters import reconcile_adapters, workers_of
from inferplane_operator.reconcile.values import Observed, Outcome

_SOON_S = 1.0
_AWAY_S = 5.0
_CALM_S = 60.0
"""How often workers that have what they shall have are asked: an engine may have been restarted by itself."""
_log = structlog.get_logger("inferplane.operator.adapters")


class AdapterRound:
    """The seam: run it for a service whenever it, one of its adapters or one of its Pods changes."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._workers: dict[tuple[str, str], frozenset[str]] = {}

    async def run(self, observed: Observed, *, commits: Mapping[str, str] | None = None) -> Outcome:
        """Do one round; `commits` says what revisions of adapters from a hub resolved to, by object name."""
        workers = workers_of(observed)
        self._remember(observed, workers)
        if not observed.adapters and not any(worker.offers for worker in workers):
            return Outcome()
        asked = await self._exchange.ask(workers)
        decided = reconcile_adapters(observed, asked, commits=commits, resting=self._exchange.resting())
        for words in await self._exchange.tell(decided.calls):
            _log.warning("an agent refused", service=observed.service["metadata"]["name"], reason=words)
        return Outcome(
            status=decided.status,
            events=decided.events,
            again_in_s=_SOON_S if decided.busy or decided.calls else self._next(asked),
        )

    def forget(self, namespace: str, name: str) -> None:
        """Drop what is kept about a service that is no more."""
        for worker in self._workers.pop((namespace, name), ()):
            self._exchange.forget(worker)

    def _next(self, workers: list[AdapterWorker]) -> float:
        times = [_CALM_S, self._exchange.next_try_in_s(workers) or _CALM_S]
        return min(times) if not any(worker.problem for worker in workers) else min(*times, _AWAY_S)

    def _remember(self, observed: Observed, workers: list[AdapterWorker]) -> None:
        """Forget the failures of workers that are gone."""
        metadata = observed.service["metadata"]
        key = str(metadata.get("namespace", "default")), str(metadata["name"])
        names = frozenset(worker.name for worker in workers)
        for gone in self._workers.get(key, frozenset()) - names:
            self._exchange.forget(gone)
        self._workers[key] = names
