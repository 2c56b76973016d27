"""What the agent counts, under the names of the catalogue."""

import math
from collections.abc import Callable, Mapping

from inferplane_runtime.http.api import Handler
from inferplane_runtime.metrics.catalogue import agent as catalogue
from inferplane_runtime.metrics.catalogue.tracing import SPANS
from inferplane_runtime.metrics.exposition import exposition_handler, register_process_metrics
from inferplane_runtime.metrics.instruments import Distribution, Instruments
from inferplane_workers.agent.engine_metrics import Total
from inferplane_workers.agent.gate import Phase
from inferplane_workers.agent.store_metrics import StoreMetrics
from inferplane_workers.agent.timeline import Outcome, Report, Side
from inferplane_workers.agent.transport import Transport
from inferplane_workers.agent.wire import Gauges

_TOTALS = {
    Total.PROMPT_TOKENS: catalogue.ENGINE_PROMPT_TOKENS,
    Total.OUTPUT_TOKENS: catalogue.ENGINE_OUTPUT_TOKENS,
    Total.CACHED_TOKENS: catalogue.ENGINE_CACHED_TOKENS,
    Total.PREEMPTIONS: catalogue.ENGINE_PREEMPTIONS,
    Total.FAILED_TRANSFERS: catalogue.ENGINE_FAILED_TRANSFERS,
}


class AgentMetrics:
    """One agent's instruments."""

    def __init__(self) -> None:
        make = Instruments()
        register_process_metrics(make.registry)
        self._registry = make.registry
        requests = make.cells(catalogue.REQUESTS)
        running = make.cells(catalogue.RUNNING)
        ttft = make.distributions(catalogue.TTFT)
        duration = make.distributions(catalogue.REQUEST_DURATION)
        # Bound once: looking cells up by label costs more than counting.
        self._requests = {
            (side, outcome): requests.labels(_word(side), _word(outcome)) for side in Side for outcome in Outcome
        }
        self._running = {side: running.labels(_word(side)) for side in Side}
        self._ttft = {side: ttft.labels(_word(side)) for side in Side}
        self._duration = {side: duration.labels(_word(side)) for side in Side}
        self._tpot = make.distributions(catalogue.TPOT).labels()
        self._prefill = make.distributions(catalogue.PREFILL_TIME).labels()
        self._transfer = make.distributions(catalogue.TRANSFER_TIME).labels()
        self._prompt_tokens = make.cells(catalogue.PROMPT_TOKENS).labels()
        self._cached_tokens = make.cells(catalogue.CACHED_TOKENS).labels()
        self._transferred_tokens = make.cells(catalogue.TRANSFERRED_TOKENS).labels()
        self._output_tokens = make.cells(catalogue.OUTPUT_TOKENS).labels()
        self._handoff_failures = make.cells(catalogue.HANDOFF_FAILURES)
        self._local_prefills = make.cells(catalogue.LOCAL_PREFILLS).labels()
        self._stripped = make.cells(catalogue.STRIPPED)
        self._kv_events = make.cells(catalogue.KV_EVENTS)
        gaps = make.cells(catalogue.KV_EVENT_GAPS)
        # Both are there before the first gap, whose rise could not be seen otherwise.
        self._gaps = {closed: gaps.labels("yes" if closed else "no") for closed in (True, False)}
        self._kv_blocks = make.cells(catalogue.KV_BLOCKS)
        self._subscribers = make.cells(catalogue.SUBSCRIBERS).labels()
        self._overflows = make.cells(catalogue.STREAM_OVERFLOWS).labels()
        self._ready = make.cells(catalogue.ENGINE_UP).labels()
        self._starts = make.cells(catalogue.ENGINE_STARTS).labels()
        self._engine_running = make.cells(catalogue.ENGINE_RUNNING)
        self._engine_waiting = make.cells(catalogue.ENGINE_WAITING)
        self._engine_kv_usage = make.cells(catalogue.ENGINE_KV_USAGE)
        self._engine_totals = {total: make.cells(spec).labels() for total, spec in _TOTALS.items()}
        self._canary_failures = make.cells(catalogue.CANARY_FAILURES).labels()
        self._distrusted = make.cells(catalogue.DISTRUSTED_PEERS).labels()
        self._degraded = make.cells(catalogue.TRANSPORT_DEGRADED)
        self._draining = make.cells(catalogue.DRAINING).labels()
        self.spans = make.cells(SPANS)
        self.store = StoreMetrics(make)

    def handler(self, refresh: Callable[[], None]) -> Handler:
        """Serve the page; `refresh` sets what is only known when asked for."""
        return exposition_handler(self._registry, refresh=refresh)

    # The data path.

    def accepted(self, side: Side) -> None:
        self._running[side].inc()

    def reported(self, report: Report) -> None:
        side = report.side
        self._running[side].dec()
        self._requests[side, report.outcome].inc()
        self._duration[side].observe(report.duration_s)
        _observe(self._ttft[side], report.ttft_s)
        _observe(self._tpot, report.tpot_s)
        _observe(self._prefill, report.prefill_s)
        _observe(self._transfer, report.transfer_s)
        self._prompt_tokens.inc(report.prompt_tokens)
        self._cached_tokens.inc(report.cached_tokens or 0)
        self._transferred_tokens.inc(report.transferred_tokens)
        self._output_tokens.inc(report.output_tokens)
        if report.failed_prefill_workers and not report.prefill_worker:
            self._local_prefills.inc()

    def handoff_failed(self, cause: str) -> None:
        self._handoff_failures.labels(cause).inc()

    def stripped(self, field: str) -> None:
        self._stripped.labels(field).inc()

    # Block events.

    def block_events(self, kind: str, count: int) -> None:
        self._kv_events.labels(kind).inc(count)

    def event_gap(self, *, closed: bool) -> None:
        self._gaps[closed].inc()

    def blocks_known(self, plane: str, count: int) -> None:
        self._kv_blocks.labels(plane).set(count)

    # The stream.

    def subscribers(self, count: int, overflows: int) -> None:
        self._subscribers.set(count)
        self._overflows.value = overflows

    # The engine.

    def phase(self, phase: Phase) -> None:
        self._ready.set(phase is Phase.READY)
        self._draining.set(phase is Phase.DRAINING)

    def engine_started(self) -> None:
        self._starts.inc()

    def engine_gauges(self, gauges: Gauges) -> None:
        rank = str(gauges.dp_rank)
        self._engine_running.labels(rank).set(gauges.running)
        self._engine_waiting.labels(rank).set(gauges.waiting)
        self._engine_kv_usage.labels(rank).set(gauges.kv_usage)

    def engine_totals(self, totals: Mapping[Total, float]) -> None:
        """Show what the engine counts; it begins anew with each start, as counters may."""
        for total, value in totals.items():
            self._engine_totals[total].set(value)

    def canary_failed(self) -> None:
        self._canary_failures.inc()

    def distrusted_peers(self, count: int) -> None:
        self._distrusted.set(count)

    def transport(self, transport: Transport) -> None:
        self._degraded.clear()
        self._degraded.labels(transport.name).set(transport.degraded)


def _word(value: Side | Outcome) -> str:
    return value.name.lower()


def _observe(distribution: Distribution, value: float) -> None:
    if not math.isnan(value):
        distribution.observe(value)
