"""The router core: names, services, workers and requests behind one small facade (see `facade` for its contract)."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Final

from inferplane_api.catalogue import Catalogue
from inferplane_api.proto import worker_pb2
from inferplane_api.proto.router_pb2 import DecisionRecord
from inferplane_engine.identity import KeySpace
from inferplane_router.core.cost import CostSettings
from inferplane_router.core.feedback import computing_s
from inferplane_router.core.fleet import Fleet
from inferplane_router.core.health import HealthEvent
from inferplane_router.core.index_check import Held
from inferplane_router.core.naming import Names, ServiceKey, service_key
from inferplane_router.core.placing import Policy
from inferplane_router.core.plugins import POLICIES
from inferplane_router.core.prefix_heat import HeldPrefix, held_prefixes
from inferplane_router.core.records import Decision, Fields, Records, account, readable
from inferplane_router.core.roster import Worker, gather_facts
from inferplane_router.core.service import Service
from inferplane_router.core.tables import OwnTables, Tables
from inferplane_router.core.values import (
    Answer,
    Ask,
    Hashes,
    Health,
    Mismatch,
    RefusalReason,
    Refused,
    ResolvedModel,
    Resync,
    Routed,
    Statistics,
    UnknownModel,
)
from inferplane_router.core.views import Counters, statistics

_SILENCE_S: Final = 30.0
"""A worker whose stream is lost is given up after this."""
_SWEEP_S: Final = 15.0


@dataclass(frozen=True, slots=True)
class Seat:
    """A worker's place in the tables of its service."""

    service: ServiceKey
    key: KeySpace
    slots: range


@dataclass(frozen=True, slots=True)
class _Resolved:
    """A name followed to its end, as long as the fleet's workers say nothing new."""

    model: ResolvedModel
    fleet: Fleet
    version: int


def _own_tables(_: ServiceKey) -> Tables:
    return OwnTables()


class RouterCore:
    """Implements `facade.Routing` and `facade.WorkerFeed`."""

    def __init__(
        self,
        *,
        epoch: int,
        rng: Random,
        wall_clock: Callable[[], float],
        policies: Mapping[str, Callable[[], Policy]] = POLICIES,
        tables_of: Callable[[ServiceKey], Tables] = _own_tables,
        cost: CostSettings | None = None,
    ) -> None:
        self._epoch = epoch
        self._rng = rng
        self._wall_clock = wall_clock
        self._policies = policies
        self._tables_of = tables_of
        self._cost = CostSettings() if cost is None else cost
        self._names = Names()
        self._services: dict[ServiceKey, Service] = {}
        self._workers: dict[str, Worker] = {}
        self._suspects: set[str] = set()
        self._service_of: dict[str, ServiceKey] = {}
        self._records = Records()
        self._counters = Counters()
        self._orphans: list[tuple[str, Refused]] = []
        self._resolved: dict[str, _Resolved] = {}
        """What names led to; void once the catalogue or any worker's adapters have changed."""
        self._swept = 0.0

    # Feed --------------------------------------------------------------------------------------------------------

    def apply_catalogue(self, catalogue: Catalogue, now: float) -> None:
        self._names = Names.of(catalogue)
        self._resolved.clear()
        wanted = {service_key(service): service for service in catalogue.services}
        for key, settings in wanted.items():
            if key in self._services:
                self._services[key].follow(settings)
            else:
                self._services[key] = Service(
                    settings,
                    epoch=self._epoch,
                    rng=self._rng,
                    records=self._records,
                    policies=self._policies,
                    tables=self._tables_of(key),
                    cost=self._cost,
                )
        entries = {entry.worker_id: entry for entry in catalogue.workers if (entry.namespace, entry.service) in wanted}
        for worker_id, worker in tuple(self._workers.items()):
            entry = entries.get(worker_id)
            if entry is None or self._home_of(worker) != (entry.namespace, entry.service):
                worker.leave()
                self._services[self._home_of(worker)].first_words.heard(worker_id)
                del self._workers[worker_id]
        for worker_id, entry in entries.items():
            known = self._workers.get(worker_id)
            if known is None:
                service = self._services[entry.namespace, entry.service]
                self._workers[worker_id] = Worker(entry, service.fleet)
                service.first_words.named(worker_id, now)
            elif known.entry != entry:
                known.move(entry)
        for key in self._services.keys() - wanted.keys():
            self._orphans += self._services.pop(key).close(self._wall_clock())

    def worker_connected(self, worker_id: str, now: float) -> None:  # noqa: ARG002  # every call of the feed has its time
        if (worker := self._workers.get(worker_id)) is not None:
            worker.connect()

    def worker_lost(self, worker_id: str, now: float) -> None:
        if (worker := self._workers.get(worker_id)) is not None:
            worker.lose(now, _SILENCE_S)
            self._suspects.add(worker_id)

    def on_worker_message(self, worker_id: str, message: worker_pb2.WorkerMessage, now: float) -> Resync | None:
        if (worker := self._workers.get(worker_id)) is None:
            return None
        resync = worker.hear(message, now)
        if message.HasField("identity"):
            self._resolved.clear()
        if message.HasField("report"):
            self._take_report(worker, message.report, now)
        elif message.HasField("status") or message.HasField("identity"):
            service = self._services[self._home_of(worker)]
            service.make_room(now)
            if message.HasField("status"):
                service.first_words.heard(worker_id)
        return resync

    def seat_of(self, worker_id: str) -> Seat | None:
        """Return where a worker that has identified itself stands in its service's tables."""
        worker = self._workers.get(worker_id)
        space = worker.space if worker is not None else None
        return None if worker is None or space is None else Seat(self._home_of(worker), space.key, worker.slots)

    def stream_addresses(self) -> dict[str, str]:
        """Return where the streams of the workers that are heard come from, by worker."""
        return {each: worker.entry.stream_address for each, worker in self._workers.items() if worker.connected}

    def held_blocks(self, worker_id: str) -> Held:
        """Return the blocks that the index has of a worker; sweeps the table."""
        worker = self._workers.get(worker_id)
        return {} if worker is None else worker.held()

    def start_over(self, worker_id: str, reason: str, now: float) -> None:
        """Forget a worker's blocks; whoever hears its next message is asked for a snapshot."""
        if (worker := self._workers.get(worker_id)) is not None:
            worker.start_over(reason, now)

    def streams_gone(self, now: float) -> None:
        """Follow the loss of whoever hears the agents: what was last heard of workers stays, others' load does not."""
        for worker in self._workers.values():
            for slot in worker.slots:
                worker.fleet.load.unconfirm(slot, now)

    # Routing -----------------------------------------------------------------------------------------------------

    def resolve_model(self, name: str) -> ResolvedModel | UnknownModel:
        target, gone = self._names.follow(name, self._rng), set[str]()
        while (known := self._known(target)) is None:
            if target == name:
                return UnknownModel(name, self.model_names())
            gone.add(target)
            target = self._names.follow(name, self._rng, without=gone)
        return known.model if target == name else replace(known.model, asked_name=name)

    def _known(self, target: str) -> "_Resolved | None":
        known = self._resolved.get(target)
        if known is None or known.version != known.fleet.version:
            known = self._resolve(target)
            if known is not None:
                self._resolved[target] = known
        return known

    def _resolve(self, target: str) -> "_Resolved | None":
        if (settings := self._names.served.get(target)) is not None:
            service, adapter = self._services[service_key(settings)], None
            engine_name = settings.served_names[0]
        else:
            loaded = [
                (key, each) for key, service in self._services.items() for each in service.fleet.adapters_by_spread()
            ]
            if (found := self._names.adapter(target, loaded)) is None:
                return None
            service, adapter = self._services[found[0]], found[1]
            engine_name = adapter.name
        workers = [each for each in self._workers.values() if each.fleet is service.fleet]
        facts = gather_facts(workers, adapter)
        model = ResolvedModel(target, service.settings, engine_name, adapter=adapter, facts=facts)
        return _Resolved(model, service.fleet, service.fleet.version)

    def model_names(self) -> tuple[str, ...]:
        routes = [
            name for name in self._names.routes if any(self._known(target) for target, _ in self._names.targets(name))
        ]
        names = dict.fromkeys((*self._names.served, *routes, *sorted(self._names.adapters)))
        for service in self._services.values():
            names |= dict.fromkeys(sorted(adapter.name for adapter in service.fleet.adapters))
        return tuple(names)

    def pick(self, ask: Ask, now: float) -> Answer:
        key = service_key(ask.model.service)
        service = self._services.get(key)
        if ask.request_id in self._service_of:
            raise ValueError(f"request_id {ask.request_id!r} is in force already; use another one")
        if service is None:
            return self._counters.count(_service_gone(ask))
        self._service_of[ask.request_id] = key
        return self._answered(service.pick(ask, now, self._wall_clock()))

    def retry(self, request_id: str, failed_worker: str, now: float) -> Answer:
        service = self._services[self._service_of[request_id]]
        if (worker := self._workers.get(failed_worker)) is not None:
            self._avoid(worker, HealthEvent.REQUEST_FAILED, worker.breaker.trip(now))
        self._counters.retried += 1
        return self._answered(service.retry(request_id, failed_worker, now, self._wall_clock()))

    def in_force(self, request_id: str) -> bool:
        return request_id in self._service_of

    def complete(self, request_id: str, outcome: worker_pb2.Outcome, now: float) -> None:
        key = self._service_of.pop(request_id, None)
        if key is not None and key in self._services:
            self._services[key].complete(request_id, outcome, now)

    def poll(self, now: float) -> list[tuple[str, Routed | Refused]]:
        for worker_id in tuple(self._suspects):
            worker = self._workers.get(worker_id)
            if worker is not None:
                worker.judge(now)
            if worker is None or worker.health_until is None:
                self._suspects.discard(worker_id)
        sweep = now - self._swept >= _SWEEP_S
        answers: list[tuple[str, Routed | Refused]] = [*self._orphans]
        self._orphans.clear()
        for service in self._services.values():
            service.expire(now)
            if sweep:
                service.sweep(now)
            answers += service.serve_line(now, self._wall_clock())
        if sweep:
            self._swept = now
            self._service_of = {each: key for each, key in self._service_of.items() if self._in_force(each, key)}
        for _, answer in answers:
            self._answered(answer)
        return answers

    def next_wakeup(self) -> float | None:
        times = [service.next_wakeup() for service in self._services.values()]
        times += [self._workers[each].health_until for each in self._suspects if each in self._workers]
        times += [self._swept + _SWEEP_S] if self._service_of else []
        return min((time for time in times if time is not None), default=None)

    def explain(self, request_id: str) -> DecisionRecord | None:
        decision = self._records.get(request_id)
        return None if decision is None else readable(decision, mismatch=self._doubt(decision))

    def decision(self, request_id: str) -> Decision | None:
        return self._records.get(request_id)

    def account(self, decision: Decision) -> Fields:
        """Return what `explain` would, as fields."""
        return account(decision, mismatch=self._doubt(decision))

    def recent(self, count: int) -> list[Decision]:
        """Return the last decisions, the newest first."""
        return self._records.latest(count)

    def hot_prefixes(self, most: int, *, among: int = 512) -> dict[ServiceKey, list[HeldPrefix]]:
        """Return what prompts of the last decisions have in common, by service, and who holds it."""
        chains: dict[ServiceKey, dict[int, list[Hashes]]] = {}
        for decision in self._records.latest(among):
            of_service = chains.setdefault(service_key(decision.ask.model.service), {})
            for start, keys in decision.ask.hashes.items():
                of_service.setdefault(start, []).append(keys)
        return {
            key: held_prefixes(self._services[key].fleet, found, most)
            for key, found in chains.items()
            if key in self._services
        }

    def statistics(self) -> Statistics:
        return statistics(self._counters, self._services.values(), self._workers.values())

    # Inside ------------------------------------------------------------------------------------------------------

    def _doubt(self, decision: Decision) -> str:
        """Return why the events of the worker that computed are not believed at present; "" where they are."""
        if decision.exact:
            return ""
        prefill, decode = decision.places
        worker = self._workers.get(prefill or decode)
        return "" if worker is None or worker.trust.cause is Mismatch.NONE else worker.trust.cause.value

    def _answered(self, answer: Answer) -> Answer:
        if isinstance(answer, Refused):
            self._service_of.pop(answer.request_id, None)
        return self._counters.count(answer)

    def _in_force(self, request_id: str, key: ServiceKey) -> bool:
        service = self._services.get(key)
        return service is not None and (request_id in service.flights or request_id in service.line)

    def _home_of(self, worker: Worker) -> ServiceKey:
        return worker.entry.namespace, worker.entry.service

    def _take_report(self, worker: Worker, report: worker_pb2.RequestReport, now: float) -> None:
        if report.router_epoch != self._epoch or (decision := self._records.observe(report)) is None:
            return
        service = self._services.get(self._home_of(worker))
        if service is None:
            return
        service.feedback.take(worker, report, decision, now)
        if worker.breaker.ended(report) or self._lags(worker, report, decision):
            self._avoid(worker, HealthEvent.BREAKER_OPENED, worker.breaker.trip(now, firm=True))
        flight = service.flights.get(report.request_id)
        if flight is None or report.nonce not in {0, flight.ask.nonce}:
            return
        if flight.routed.decode.worker_id == worker.entry.worker_id:
            self.complete(report.request_id, report.outcome, now)

    def _lags(self, worker: Worker, report: worker_pb2.RequestReport, decision: Decision) -> bool:
        """Say whether a worker has been far slower than predicted, and its peers have not."""
        predicted_s, observed_s = computing_s(worker, report, decision), report.queue_s + report.prefill_s
        if predicted_s is None or not math.isfinite(observed_s) or not worker.breaker.timed(observed_s, predicted_s):
            return False
        peers = (each for each in self._workers.values() if each.fleet is worker.fleet and each is not worker)
        return worker.breaker.slower_than(
            each.breaker.slowness for each in peers if each.decodes == worker.decodes and each.health is Health.READY
        )

    def _avoid(self, worker: Worker, event: HealthEvent, until: float) -> None:
        worker.happen(event, until)
        self._suspects.add(worker.entry.worker_id)


def _service_gone(ask: Ask) -> Refused:
    message = f"service {ask.model.service.name} was removed"
    return Refused(ask.request_id, RefusalReason.NO_WORKERS, message, retry_after_s=1.0)
