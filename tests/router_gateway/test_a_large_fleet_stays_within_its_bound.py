"""How many series one scrape of a gateway shows."""

import re
from collections import Counter

import pytest

from inferplane_api.catalogue import Catalogue, CatalogueService, CatalogueWorker, WorkerRole
from inferplane_router.core.testing import make_core
from inferplane_router.core_meters import CoreMeters
from inferplane_router.gateway.attainment import Verdict
from inferplane_router.gateway.forward import OUTCOME_LABELS
from inferplane_router.gateway.meters import GatewayMeters
from inferplane_router.gateway.parse import Route
from inferplane_runtime.metrics.catalogue import gateway, router
from inferplane_runtime.metrics.exposition import page
from inferplane_runtime.metrics.instruments import Instruments
from inferplane_runtime.metrics.labels import Fleet, series

FLEET = Fleet(services=10, pools=20, workers=100, tenants=50)


def place(service: int) -> tuple[str, str]:
    """Name every second service as the one before it, in another namespace."""
    return f"n{service % 2}", f"s{service // 2}"


_NAME = re.compile(rb"^(inferplane_[a-z_]+?)(_bucket|_sum|_count)?\{")


def test_the_widest_metric_stays_within_the_bound_that_is_stated_for_it() -> None:
    instruments = Instruments()
    meters = GatewayMeters(instruments)
    for service in range(FLEET.services):
        for tenant in range(FLEET.tenants):
            for priority in range(-3, 4):
                for met in (True, False, None):
                    meters.of(place(service)).judged(
                        Verdict(ttft=met, tpot=met), priority=priority, tenant=f"t{tenant}"
                    )
    name = gateway.SLO_REQUESTS.name.encode()
    shown = sum(line.startswith(name + b"{") for line in page(instruments.registry).splitlines())

    assert 0 < shown <= series(gateway.SLO_REQUESTS, FLEET)


def catalogue() -> Catalogue:
    return Catalogue(
        services=tuple(
            CatalogueService(namespace=place(it)[0], name=place(it)[1], served_names=(f"m{it}",))
            for it in range(FLEET.services)
        ),
        workers=tuple(
            CatalogueWorker(
                worker_id=f"n{it % 2}/w{it}",
                namespace=place(it % FLEET.services)[0],
                service=place(it % FLEET.services)[1],
                pool=f"pool{it % FLEET.pools}",
                role=WorkerRole.DECODE,
                revision="r",
                http_address=f"10.0.0.{it}:8100",
                stream_address=f"10.0.0.{it}:8101",
            )
            for it in range(FLEET.workers)
        ),
    )


@pytest.mark.slow
def test_every_metric_of_a_router_stays_within_its_bound() -> None:
    instruments, core = Instruments(), make_core()
    core.apply_catalogue(catalogue(), 0.0)
    meters, core_meters = GatewayMeters(instruments), CoreMeters(instruments, core)
    for service in range(FLEET.services):
        mine = meters.of(place(service))
        for route in Route:
            for outcome in OUTCOME_LABELS.values():
                mine.ended(route.value, outcome)
        for status in (200, 400, 404, 429, 500, 502, 503, 504):
            mine.answered(status)
        for tenant in range(FLEET.tenants):
            for priority in (-1, 0, 1):
                mine.judged(Verdict(ttft=True, tpot=False), priority=priority, tenant=f"t{tenant}")
    core_meters.refresh()
    shown = Counter(
        match[1].decode() for line in page(instruments.registry).splitlines() if (match := _NAME.match(line))
    )

    bounds = {spec.name: series(spec, FLEET) for spec in (*gateway.ALL, *router.ALL)}
    assert {name: count for name, count in shown.items() if count > bounds[name]} == {}
    assert shown[router.WORKER_BLOCKS.name] == FLEET.workers
    assert sum(shown.values()) <= sum(bounds.values())
