"""What one process has to show, as one document of counts.  Times in seconds, moments in seconds of the wall clock.

Counts and not shares, so that the documents of several processes can be added: see `merging`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from inferplane_api.proto.router_pb2 import PlanNotice
from inferplane_router.console.history import History, Sample, Tally, steps
from inferplane_router.console.plans import Plans
from inferplane_router.core.naming import ServiceKey
from inferplane_router.core.prefix_heat import HeldPrefix
from inferplane_router.core.records import Decision
from inferplane_router.core.values import Health, ServiceView, Statistics, WorkerView

Document = dict[str, Any]
WINDOW_S: Final = 300.0
_SERVES: Final = frozenset({Health.READY, Health.SUSPECT})


@dataclass(frozen=True, slots=True)
class Seen:
    """What a picture is made from."""

    statistics: Statistics
    history: History
    plans: Plans
    decisions: Sequence[Decision]
    prefixes: Mapping[ServiceKey, Sequence[HeldPrefix]]
    unready: str


def sample(statistics: Statistics, tallies: Mapping[ServiceKey, Tally], at: float) -> list[tuple[str, Sample]]:
    """Take a sample of every service."""
    return [
        (_key(it), _sample(it, statistics.workers, tallies.get((it.namespace, it.name), Tally()), at))
        for it in statistics.services
    ]


def picture(seen: Seen) -> Document:
    statistics = seen.statistics
    return {
        "unready": seen.unready,
        "windowSeconds": WINDOW_S,
        "services": [_service(it, seen) for it in statistics.services],
        "refused": {reason.value: count for reason, count in statistics.refused.items() if count},
        "index": {"blocks": statistics.index_blocks, "bytes": statistics.index_bytes},
        "decisions": [_decision(it) for it in seen.decisions],
    }


def _key(service: ServiceView) -> str:
    return f"{service.namespace}/{service.name}"


def _sample(service: ServiceView, workers: Iterable[WorkerView], tally: Tally, at: float) -> Sample:
    serving = [it.role for it in _of(service, workers) if it.health in _SERVES]
    return Sample(at, serving.count("prefill"), serving.count("decode"), service.in_flight, service.queued, tally)


def _of(service: ServiceView, workers: Iterable[WorkerView]) -> list[WorkerView]:
    return [it for it in workers if (it.namespace, it.service) == (service.namespace, service.name)]


def _service(service: ServiceView, seen: Seen) -> Document:
    settings, place = service.settings, (service.namespace, service.name)
    latest = seen.plans.latest(*place)
    return {
        "namespace": service.namespace,
        "name": service.name,
        "servedNames": list(settings.served_names),
        "limits": {"ttft": settings.ttft_s, "tpot": settings.tpot_s, "percentile": settings.percentile},
        "window": asdict(seen.history.window(_key(service), WINDOW_S)),
        "inFlight": service.in_flight,
        "queued": service.queued,
        "workers": [_worker(it) for it in _of(service, seen.statistics.workers)],
        "history": [_moment(*step) for step in steps(seen.history.of(_key(service)))],
        "plan": None if latest is None else _plan(latest),
        "plans": [_plan(it) for it in seen.plans.moves(*place)],
        "prefixes": [_prefix(it) for it in seen.prefixes.get(place, ())],
    }


def _worker(worker: WorkerView) -> Document:
    return {
        "id": worker.worker_id,
        "role": worker.role,
        "revision": worker.revision,
        "health": worker.health.value,
        "detail": worker.detail,
        "inFlight": worker.in_flight,
        "uncachedTokens": worker.uncached_tokens,
        "blocks": worker.blocks,
        "kvMode": worker.kv_mode.value,
        "mismatch": worker.mismatch.value,
        "mismatchDetail": worker.mismatch_detail,
        "predictions": worker.predictions,
        "exactPredictions": worker.exact_predictions,
    }


def _moment(it: Sample, lately: Tally) -> Document:
    return {
        "at": it.at,
        "prefill": it.prefill,
        "decode": it.decode,
        "inFlight": it.in_flight,
        "queued": it.queued,
        "ttft_met": lately.ttft_met,
        "ttft_missed": lately.ttft_missed,
        "tpot_met": lately.tpot_met,
        "tpot_missed": lately.tpot_missed,
    }


def _plan(it: PlanNotice) -> Document:
    return {
        "at": it.decided_at,
        "prefill": it.prefill,
        "decode": it.decode,
        "lent": it.lent,
        "acting": it.acting,
        "verdict": it.verdict,
        "reason": it.reason,
        "costPerHour": it.cost_per_hour,
    }


def _prefix(it: HeldPrefix) -> Document:
    return {"name": f"{it.name:016x}", "tokens": it.tokens, "asked": it.asked, "held": it.held}


def _decision(it: Decision) -> Document:
    prefill, decode = it.places
    known = it.appraisal
    return {
        "id": it.ask.request_id,
        "at": it.decided_at,
        "service": it.ask.model.service.name,
        "namespace": it.ask.model.service.namespace,
        "prefill": prefill,
        "decode": decode,
        "reason": it.reason,
        "promptTokens": 0 if it.ask.tokens is None else it.ask.tokens.shape[0],
        "hitTokens": known.hit_tokens(it.choice.computing) if known is not None and decode else 0,
        "predictedTtft": it.choice.ttft_s,
        "queued": it.queued_s,
    }
