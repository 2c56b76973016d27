"""Everything that routers are told of this worker, kept as state and passed to the hub as it changes.

The data path, the block listeners and the engine's watch each report here through narrow protocols; nobody else writes
to the hub.  Reports of handed-off requests wait a moment, so that the block events of their transfer can arrive.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import structlog

from inferplane_api.proto import worker_pb2 as pb
from inferplane_engine.kv_events import Plane, PlaneChange
from inferplane_workers.agent import wire
from inferplane_workers.agent.canary import CanaryState
from inferplane_workers.agent.decode_hits import DecodeHits
from inferplane_workers.agent.engine_metrics import EnginePage
from inferplane_workers.agent.gate import Phase
from inferplane_workers.agent.ledger import Change, Ledger
from inferplane_workers.agent.metrics import AgentMetrics
from inferplane_workers.agent.rank_blocks import RankBlocks
from inferplane_workers.agent.routing_headers import Routing
from inferplane_workers.agent.stored_blocks import Moves, StoredBlocks
from inferplane_workers.agent.stream_hub import Expected, StreamHub
from inferplane_workers.agent.tier_prices import TierPrices
from inferplane_workers.agent.timeline import Outcome, Report, Side
from inferplane_workers.agent.transport import Transport
from inferplane_workers.agent.wire import Gauges, PlaneKey

_log = structlog.get_logger("inferplane.agent")
_SETTLE_S = 0.05


class Announcer:
    """State and listener in one: what it hears it keeps, and says."""

    def __init__(
        self,
        *,
        identity: pb.Identity,
        block_size: int,
        dp_size: int,
        kv_events: bool,
        metrics: AgentMetrics,
        later: Callable[[float, Callable[[], None]], object],
        new_epoch: Callable[[], int],
        schedule: Callable[[float], None],
    ) -> None:
        self.identity = identity
        self._status = pb.WorkerStatus(phase=pb.PHASE_STARTING)
        self._status.kv_events = pb.KV_EVENTS_OK if kv_events else pb.KV_EVENTS_OFF
        self._metrics = metrics
        self._later = later
        self._new_epoch = new_epoch
        self._ranks: dict[int, RankBlocks] = {}
        self._suspect: dict[int, str] = {}
        self._gauges: dict[int, Gauges] = {}
        self._hits = {rank: DecodeHits(block_size) for rank in range(dp_size)}
        self._handed: dict[str, int] = {}
        self.stored = StoredBlocks(dp_size)
        self._prices = TierPrices()
        self.hub = StreamHub(state=self, epoch=new_epoch(), schedule=schedule, on_chain=self._chain_known)
        self.ledger = Ledger(self._load_changed)

    # State, for snapshots.

    def identity_body(self) -> bytes:
        return wire.identity_body(self.identity)

    def status_body(self) -> bytes:
        return wire.status_body(self._status)

    def planes(self) -> Iterable[tuple[PlaneKey, bytes]]:
        for rank in self._ranks.values():
            yield from rank.planes()
        yield from self.stored.planes()

    def entries(self) -> Iterable[Change]:
        return self.ledger.entries()

    def gauges(self) -> Iterable[Gauges]:
        return self._gauges.values()

    # The data path.

    def accepted(self, routing: Routing, side: Side) -> None:
        self._metrics.accepted(side)
        if routing.prefill:
            self._handed[routing.request_id] = routing.dp_rank
        self.hub.accepted(routing.request_id)

    def stripped(self, fields: Sequence[str]) -> None:
        for field in fields:
            self._metrics.stripped(field)

    def handoff_failed(self, address: str, cause: str) -> None:
        _log.warning("prefill worker failed a hand-off", address=address, cause=cause)
        self._metrics.handoff_failed(cause)

    def reported(self, report: Report) -> None:
        request_id = report.routing.request_id
        if request_id not in self._handed:
            self._report(report)
            return
        if report.side is Side.DECODE and report.prefill_worker and report.outcome is Outcome.OK:
            self._later(_SETTLE_S, lambda: self._report_handed(report))
        else:
            self._close(report)
            self._report(report)

    def _report_handed(self, report: Report) -> None:
        there = self._close(report)
        if there is not None:
            transferred = max(0, report.prompt_tokens - there)
            report = replace(report, decode_cached_tokens=there, transferred_tokens=transferred)
        self._report(report)

    def _close(self, report: Report) -> int | None:
        rank = self._handed.pop(report.routing.request_id, 0)
        hits = self._hits.get(rank)
        return hits.close(report.routing.request_id, report.prompt_tokens) if hits else None

    def _report(self, report: Report) -> None:
        self.hub.finished(report.routing.request_id)
        self._metrics.reported(report)
        self.hub.report(report)

    def _load_changed(self, change: Change) -> None:
        self.hub.load(change)

    def _chain_known(self, request_id: str, expected: Expected) -> None:
        rank = self._handed.get(request_id)
        if rank is not None and rank in self._hits:
            self._hits[rank].open(request_id, wire.unpack(expected.hashes))

    # Block events.

    def add_rank(self, rank: RankBlocks) -> None:
        self._ranks[rank.dp_rank] = rank

    def changed(self, dp_rank: int, changes: Iterable[PlaneChange]) -> None:
        for change in changes:
            removed, stored = change.removed.tolist(), change.stored.tolist()
            key = PlaneKey(dp_rank, int(change.plane))
            self.hub.blocks(key, cleared=change.cleared, removed=removed, stored=stored)
            if change.plane is Plane.DEVICE:
                self._hits[dp_rank].stored(stored)
                self._metrics.block_events("stored", len(stored))
                self._metrics.block_events("removed", len(removed))
        if self._ranks[dp_rank].hybrid and not self.identity.hybrid:
            self.identity.hybrid = True
            self.hub.identity_changed()

    def voided(self, dp_rank: int, reason: str) -> None:
        _log.warning("blocks are forgotten", dp_rank=dp_rank, reason=reason)
        self.hub.void(self._new_epoch())

    def store_moved(self, moves: Iterable[Moves]) -> None:
        for each in moves:
            self.hub.blocks(each.key, removed=each.removed, stored=each.stored)

    def store_figures(self, store: str, stat: Mapping[str, Any]) -> None:
        self._metrics.store.take(store, stat)
        if self._prices.take(stat):
            del self._status.tier_prices[:]
            self._status.tier_prices.extend(self._prices.messages())
            self.hub.status_changed()

    def trusted(self, dp_rank: int, *, trusted: bool, reason: str) -> None:
        if trusted:
            self._suspect.pop(dp_rank, None)
        else:
            self._suspect[dp_rank] = reason
            _log.warning("block events are suspect", dp_rank=dp_rank, reason=reason)
        self._status.kv_events = pb.KV_EVENTS_SUSPECT if self._suspect else pb.KV_EVENTS_OK
        self.hub.status_changed()

    def lost(self, dp_rank: int, batches: int) -> None:
        _log.warning("event batches are lost", dp_rank=dp_rank, batches=batches)
        self._metrics.event_gap(closed=False)

    def problem(self, dp_rank: int, name: str, count: int) -> None:
        del dp_rank
        self._metrics.block_events(name, count)

    @property
    def suspect(self) -> bool:
        return bool(self._suspect)

    # The engine's watch.

    def phase_changed(self, phase: Phase, detail: str) -> None:
        _log.info("phase", phase=phase.name.lower(), detail=detail)
        self._metrics.phase(phase)
        self._status.phase = pb.Phase.Name(phase)  # type: ignore[assignment]
        self._status.detail = detail
        self.hub.status_changed()

    def canary_judged(self, state: CanaryState) -> None:
        if state is CanaryState.FAILED:
            self._metrics.canary_failed()
        self._status.canary = pb.CanaryState.Name(state)  # type: ignore[assignment]
        self.hub.status_changed()

    def transport_seen(self, transport: Transport) -> None:
        if (self._status.transport, self._status.transport_degraded) == (transport.name, transport.degraded):
            return
        if transport.degraded:
            _log.warning("KV transfer is degraded", detail=transport.detail)
        self._metrics.transport(transport)
        self._status.transport = transport.name
        self._status.transport_degraded = transport.degraded
        self.hub.status_changed()

    def page_read(self, page: EnginePage) -> None:
        self._metrics.engine_totals(page.totals)
        for gauge in page.gauges:
            if self._gauges.get(gauge.dp_rank) != gauge:
                self._gauges[gauge.dp_rank] = gauge
                self._metrics.engine_gauges(gauge)
                self.hub.gauges(gauge)

    def refresh_metrics(self) -> None:
        """Set what is only known when asked for."""
        self._metrics.subscribers(self.hub.subscribers, self.hub.overflows)
        sizes: dict[int, int] = {}
        for key, hashes in self.planes():
            sizes[key.plane] = sizes.get(key.plane, 0) + len(hashes) // wire.HASH_BYTES
        for plane, size in sizes.items():
            self._metrics.blocks_known(pb.Plane.Name(plane).removeprefix("PLANE_").lower(), size)

    @property
    def status(self) -> pb.WorkerStatus:
        return self._status
