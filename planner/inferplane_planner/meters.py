"""What was planned, counted."""

from inferplane_planner.act.world import Sight
from inferplane_planner.core.contract import Observations, Plan, Verdict
from inferplane_planner.core.decide import Move
from inferplane_runtime.metrics.catalogue import planner as names
from inferplane_runtime.metrics.instruments import Instruments


class Meters:
    def __init__(self, instruments: Instruments) -> None:
        self._workers = instruments.cells(names.PLANNED_WORKERS)
        self._decisions = instruments.cells(names.DECISIONS)
        self._verdict = instruments.cells(names.VERDICT)
        self._rate = instruments.cells(names.PLANNED_RATE)
        self._cost = instruments.cells(names.COST)
        self._ttft = instruments.cells(names.PREDICTED_TTFT)
        self._tpot = instruments.cells(names.PREDICTED_TPOT)
        self._attainment = instruments.cells(names.ATTAINMENT)

    def forget(self, namespace: str, service: str) -> None:
        """Show nothing any more of a service that has gone."""
        for role in ("prefill", "decode", "lent"):
            self._workers.forget(namespace, service, role)
        for verdict in Verdict:
            self._verdict.forget(namespace, service, verdict.value)
        for move in Move:
            self._decisions.forget(namespace, service, move.value)
        for cells in (self._rate, self._cost, self._ttft, self._tpot, self._attainment):
            cells.forget(namespace, service)

    def decided(self, sight: Sight, seen: Observations, plan: Plan) -> None:
        """Show a plan, and what was met so far."""
        place = sight.place
        for role, count in (("prefill", plan.prefill), ("decode", plan.decode), ("lent", plan.lent)):
            self._workers.labels(*place, role).set(count)
        for verdict in Verdict:
            self._verdict.labels(*place, verdict.value).set(float(verdict is plan.verdict))
        self._decisions.labels(*place, plan.move.value).inc()
        self._rate.labels(*place).set(plan.rate_per_s)
        self._cost.labels(*place).set(plan.cost_per_hour)
        self._ttft.labels(*place).set(plan.ttft_s if plan.ttft_s is not None else float("inf"))
        self._tpot.labels(*place).set(plan.tpot_s if plan.tpot_s is not None else float("inf"))
        if seen.measured is not None:
            self._attainment.labels(*place).set(seen.measured.attainment)
