"""The gateway's counters, bound once to each service: what the hot path touches is an attribute and an addition."""

from collections.abc import Iterator
from typing import Final

from inferplane_router.core.naming import ServiceKey
from inferplane_router.gateway.attainment import Verdict
from inferplane_runtime.metrics.catalogue import gateway as names
from inferplane_runtime.metrics.catalogue import router as core_names
from inferplane_runtime.metrics.instruments import Cell, Cells, Instruments

NO_SERVICE: Final[ServiceKey] = ("", "")


class ServiceMeters:
    """What is counted for one service."""

    __slots__ = (
        "_judged",
        "_outcomes",
        "_responses",
        "disconnects",
        "duration",
        "itl",
        "pick",
        "predicted_tpot",
        "predicted_ttft",
        "prompt_tokens",
        "queue",
        "running",
        "service",
        "tokenise",
        "tpot",
        "ttft",
    )

    def __init__(self, meters: "GatewayMeters", service: ServiceKey) -> None:
        self.service = service
        self.duration = meters.duration.labels(*service)
        self.ttft = meters.ttft.labels(*service)
        self.tpot = meters.tpot.labels(*service)
        self.itl = meters.itl.labels(*service)
        self.queue = meters.queue.labels(*service)
        self.tokenise = meters.tokenise.labels(*service)
        self.pick = meters.pick.labels(*service)
        self.predicted_ttft = meters.predicted_ttft.labels(*service)
        self.predicted_tpot = meters.predicted_tpot.labels(*service)
        self.prompt_tokens = meters.prompt_tokens.labels(*service)
        self.running = meters.running.labels(*service)
        self.disconnects = meters.disconnects.labels(*service)
        self._outcomes = _Memo(meters.requests, service)
        self._responses = _Memo(meters.responses, service)
        self._judged = _Memo(meters.judged, service)

    def ended(self, route: str, outcome: str) -> None:
        self._outcomes.cell(route, outcome).value += 1

    def refusals(self) -> int:
        """Return how many requests got no place, or none in time, since the start."""
        return int(sum(cell.value for labels, cell in self._outcomes if labels[-1] in {"refused", "deadline"}))

    def answered(self, status: int) -> None:
        self._responses.cell(str(status)).value += 1

    def judged(self, verdict: Verdict, *, priority: int, tenant: str) -> None:
        """Count one stream under each objective that it could be held against."""
        band = "normal" if priority == 0 else "high" if priority > 0 else "low"
        for objective, met in (("ttft", verdict.ttft), ("tpot", verdict.tpot), ("both", verdict.both)):
            if met is not None:
                # The other one is there from now on too: a counter that first shows itself at 60 has not risen.
                self._judged.cell(objective, band, tenant, "no" if met else "yes")
                self._judged.cell(objective, band, tenant, "yes" if met else "no").value += 1

    def streams(self, objective: str, *, met: bool) -> int:
        """Return how many streams met, or missed, one of `ttft`, `tpot` and `both` since the start."""
        said = "yes" if met else "no"
        return int(sum(cell.value for labels, cell in self._judged if (labels[0], labels[-1]) == (objective, said)))


class _Memo:
    """Cells below one service, found without building label tuples anew."""

    __slots__ = ("_cells", "_known", "_service")

    def __init__(self, cells: Cells, service: ServiceKey) -> None:
        self._cells = cells
        self._service = service
        self._known: dict[tuple[str, ...], Cell] = {}

    def cell(self, *rest: str) -> Cell:
        known = self._known.get(rest)
        if known is None:
            known = self._known[rest] = self._cells.labels(*self._service, *rest)
        return known

    def __iter__(self) -> Iterator[tuple[tuple[str, ...], Cell]]:
        return iter(self._known.items())


class GatewayMeters:
    """Makes the instruments; also counts what happens on connections before there is a request."""

    def __init__(self, instruments: Instruments) -> None:
        self.requests = instruments.cells(names.REQUESTS)
        self.responses = instruments.cells(names.RESPONSES)
        self.running = instruments.cells(names.RUNNING)
        self.retries = instruments.cells(names.RETRIES)
        self.disconnects = instruments.cells(names.DISCONNECTS)
        self.failures = instruments.cells(names.UPSTREAM_FAILURES)
        self.draining = instruments.cells(names.DRAINING).labels()
        self.duration = instruments.distributions(names.REQUEST_DURATION)
        self.ttft = instruments.distributions(names.TTFT)
        self.tpot = instruments.distributions(names.TPOT)
        self.itl = instruments.distributions(names.ITL)
        self.judged = instruments.cells(names.SLO_REQUESTS)
        self.queue = instruments.distributions(names.QUEUE_TIME)
        self.tokenise = instruments.distributions(names.TOKENISE_TIME)
        self.pick = instruments.distributions(names.PICK_TIME)
        self.predicted_ttft = instruments.distributions(core_names.PREDICTED_TTFT)
        self.predicted_tpot = instruments.distributions(core_names.PREDICTED_TPOT)
        self.prompt_tokens = instruments.distributions(names.PROMPT_TOKENS)
        self._rejected = instruments.cells(names.REJECTED)
        self._connections = instruments.cells(names.CONNECTIONS).labels()
        self._services: dict[ServiceKey, ServiceMeters] = {}

    def of(self, service: ServiceKey) -> ServiceMeters:
        """Return the meters of a service; `NO_SERVICE` for requests that named none."""
        meters = self._services.get(service)
        if meters is None:
            meters = self._services[service] = ServiceMeters(self, service)
        return meters

    def services(self) -> tuple[ServiceMeters, ...]:
        """Return the meters of every service that was asked for."""
        return tuple(self._services.values())

    # What the HTTP server counts.

    def connection_opened(self) -> None:
        self._connections.value += 1

    def connection_closed(self) -> None:
        self._connections.value -= 1

    def rejected(self, status: int) -> None:
        self._rejected.labels(str(status)).inc()
