"""What a scrape costs a gateway: `python bench/bench_scrape.py [--workers 100] [--tenants 50] [--services 10]`.

A core with so many workers, and meters on which every service, tenant, priority and outcome has been counted, write
their page again and again; told is its CPU time, refreshing the gauges included.  The last line is JSON.
"""

import argparse
import json
import time
from collections.abc import Iterator
from itertools import product
from statistics import median
from typing import Any, Final

from inferplane_router.core.router import RouterCore
from inferplane_router.core.testing import FakeWorker, make_core, service
from inferplane_router.core_meters import CoreMeters
from inferplane_router.gateway.attainment import Verdict
from inferplane_router.gateway.forward import OUTCOME_LABELS
from inferplane_router.gateway.meters import GatewayMeters, ServiceMeters
from inferplane_runtime.metrics.exposition import page, register_process_metrics
from inferplane_runtime.metrics.instruments import Instruments

BAR_MS: Final = 50.0
_PAGES: Final = 50
_PRIORITIES: Final = (-1, 0, 1)
_STATUSES: Final = (200, 400, 404, 429, 500, 502, 503, 504)


def fleet(services: int, workers: int) -> RouterCore:
    names = [f"s{number}" for number in range(services)]
    made = [FakeWorker(f"ns/w{number}", service=names[number % services]) for number in range(workers)]
    return make_core(*made, services=[service(name, served=(name,)) for name in names])


def count_everything(meters: ServiceMeters, tenants: int) -> None:
    """Have each of a service's series that a gateway can have."""
    for number, priority, late in product(range(tenants), _PRIORITIES, (False, True)):
        meters.judged(Verdict(ttft=late, tpot=not late), priority=priority, tenant=f"t{number}")
    for route, outcome in product(("chat", "completion", "plain"), OUTCOME_LABELS.values()):
        meters.ended(route, outcome)
    for status in _STATUSES:
        meters.answered(status)
    for each in (meters.ttft, meters.tpot, meters.itl, meters.duration, meters.queue):
        each.observe(0.1)


def scrapes(core: RouterCore, instruments: Instruments) -> Iterator[tuple[float, bytes]]:
    """Yield the CPU seconds of one scrape and its page, again and again."""
    refresh = CoreMeters(instruments, core).refresh
    while True:
        began = time.process_time()
        refresh()
        written = page(instruments.registry)
        yield time.process_time() - began, written


def run(services: int, workers: int, tenants: int) -> dict[str, Any]:
    core, instruments = fleet(services, workers), Instruments()
    register_process_metrics(instruments.registry)
    meters = GatewayMeters(instruments)
    for number in range(services):
        count_everything(meters.of(("default", f"s{number}")), tenants)
    found = scrapes(core, instruments)
    took = [next(found) for _ in range(_PAGES)]
    written, times = took[-1][1], [spent * 1000 for spent, _ in took]
    return {
        "bench": "scrape",
        "ms": round(median(times), 1),
        "least_ms": round(min(times), 1),
        "bar_ms": BAR_MS,
        "lines": written.count(b"\n"),
        "bytes": len(written),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--services", type=int, default=10)
    parser.add_argument("--workers", type=int, default=100)
    parser.add_argument("--tenants", type=int, default=50)
    given = parser.parse_args()
    print(json.dumps(run(given.services, given.workers, given.tenants)))


if __name__ == "__main__":
    main()
