"""How many series one scrape of a gateway shows."""

from inferplane_router.gateway.attainment import Verdict
from inferplane_router.gateway.meters import GatewayMeters
from inferplane_runtime.metrics.catalogue import gateway
from inferplane_runtime.metrics.exposition import page
from inferplane_runtime.metrics.instruments import Instruments
from inferplane_runtime.metrics.labels import Fleet, series

FLEET = Fleet(services=10, pools=20, workers=100, tenants=50)


def test_the_widest_metric_stays_within_the_bound_that_is_stated_for_it() -> None:
    instruments = Instruments()
    meters = GatewayMeters(instruments)
    for service in range(FLEET.services):
        for tenant in range(FLEET.tenants):
            for priority in range(-3, 4):
                for met in (True, False, None):
                    meters.of(f"s{service}").judged(Verdict(ttft=met, tpot=met), priority=priority, tenant=f"t{tenant}")
    name = gateway.SLO_REQUESTS.name.encode()
    shown = sum(line.startswith(name + b"{") for line in page(instruments.registry).splitlines())

    assert 0 < shown <= series(gateway.SLO_REQUESTS, FLEET)
