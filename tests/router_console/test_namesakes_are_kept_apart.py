"""Two namespaces may each have a service of the same name: nothing that is counted of one is the other's."""

import asyncio
from typing import Any

import pytest

from inferplane_api.catalogue import CatalogueService
from inferplane_router.console.console import Console, Surroundings
from inferplane_router.console.history import SAMPLE_S
from inferplane_router.core.testing import ask, make_core, prompt
from inferplane_router.core_meters import CoreMeters
from inferplane_router.gateway.attainment import Verdict
from inferplane_router.gateway.meters import GatewayMeters
from inferplane_router.grpc.siblings import NO_SIBLINGS
from inferplane_runtime.clock import FakeClock
from inferplane_runtime.metrics.exposition import page
from inferplane_runtime.metrics.instruments import Instruments

SERVICES = tuple(
    CatalogueService(namespace=namespace, name="chat", served_names=(f"{namespace}-chat",), ttft_s=ttft_s)
    for namespace, ttft_s in (("blue", 1.0), ("green", 4.0))
)


class Watched:
    """A core with the two services, and what is counted of them."""

    def __init__(self) -> None:
        self.instruments = Instruments()
        self.core = make_core(services=SERVICES)
        self.core_meters = CoreMeters(self.instruments, self.core)
        self.meters = GatewayMeters(self.instruments)
        self.clock = FakeClock()

    def judged(self, namespace: str, *, met: bool) -> None:
        self.meters.of((namespace, "chat")).judged(Verdict(ttft=met, tpot=True), priority=0, tenant="")

    def console(self) -> dict[str, Any]:
        console = Console(Surroundings(self.core, self.meters, self.clock, lambda: "", NO_SIBLINGS))
        console.keep_sampling()
        self.judged("blue", met=False)
        self.judged("green", met=True)
        self.clock.advance(SAMPLE_S)
        console.keep_sampling()
        return asyncio.run(console.picture())


@pytest.fixture
def watched() -> Watched:
    return Watched()


def test_on_a_page_of_metrics(watched: Watched) -> None:
    watched.judged("blue", met=False)
    watched.judged("green", met=True)
    watched.core_meters.refresh()

    shown = page(watched.instruments.registry).decode()

    for namespace, met, limit in (("blue", "no", "1.0"), ("green", "yes", "4.0")):
        of = f'namespace="{namespace}",objective="ttft"'
        counted = f'met="{met}",{of},priority="normal",service="chat",tenant=""'
        assert f"inferplane_gateway_slo_requests_total{{{counted}}} 1.0\n" in shown
        assert f'inferplane_router_objective_seconds{{{of},service="chat"}} {limit}\n' in shown


def test_on_the_console(watched: Watched) -> None:
    services = watched.console()["services"]

    assert {it["namespace"]: it["ttftMet"] for it in services} == {"blue": 0.0, "green": 1.0}


def test_in_what_the_console_says_of_a_request(watched: Watched) -> None:
    watched.core.pick(ask(watched.core, "r", prompt(1, 64), name="green-chat"), 0.0)

    (decision,) = watched.console()["decisions"]

    assert (decision["namespace"], decision["service"]) == ("green", "chat")
