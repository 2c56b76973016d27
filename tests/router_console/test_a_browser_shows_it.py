"""The page in a real browser: it renders without a complaint, in both colours, and the keyboard reaches everything."""

import asyncio
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

from chromium import Page, chromium, find_chromium
from inferplane_api.catalogue import WorkerRole
from inferplane_api.proto.router_pb2 import PlanNotice
from inferplane_router.console.console import Console, Surroundings
from inferplane_router.console.history import SAMPLE_S
from inferplane_router.core.testing import FakeWorker, ask, make_core, prompt
from inferplane_router.gateway.attainment import Verdict
from inferplane_router.gateway.meters import GatewayMeters
from inferplane_router.grpc.siblings import NO_SIBLINGS
from inferplane_runtime.clock import FakeClock
from inferplane_runtime.http.api import Exchange, Limits, Request
from inferplane_runtime.http.errors import json_error
from inferplane_runtime.http.server import HttpServer
from inferplane_runtime.metrics.instruments import Instruments

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),  # a browser starts, on whatever cores there are
    pytest.mark.skipif(find_chromium() is None, reason="no Chromium on this machine"),
]
DRAWN: Final = "document.querySelectorAll('#decisions button').length === 3"
ASKED: Final = "performance.getEntriesByType('resource').filter((it) => it.name.endsWith('/console/state')).length"


def console() -> Console:
    """Two services; one of them with decisions, a plan that moved, and an objective that was missed for a while."""
    workers = [FakeWorker("chat/p0", WorkerRole.PREFILL), FakeWorker("chat/d0"), FakeWorker("chat/d1")]
    core = make_core(*workers)
    meters, clock = GatewayMeters(Instruments()), FakeClock()
    shown = Console(Surroundings(core, meters, clock, lambda: "", NO_SIBLINGS))
    for missed in (0, 3, 1, 0):
        for number in range(10):
            meters.of(("default", "chat")).judged(Verdict(ttft=number >= missed, tpot=True), priority=0, tenant="")
            meters.of(("default", "chat")).ttft.observe(0.15)
        clock.advance(SAMPLE_S)
        shown.keep_sampling()
    for name in ("first", "second", "third"):
        core.pick(ask(core, name, prompt(1, 64)), 1.0)
    for replicas in (1, 2):
        notice = PlanNotice(service="chat", prefill=1, decode=replicas, acting=True, verdict="Met", reason="more came")
        notice.decided_at = clock.wall() - SAMPLE_S / replicas
        shown.planned(notice)
    return shown


@dataclass
class Seen:
    """What was seen in the browser."""

    rows: dict[str, int] = field(default_factory=dict[str, int])
    facts: dict[str, Any] = field(default_factory=dict[str, Any])
    complaints: list[str] = field(default_factory=list[str])


async def look(page: Page) -> Seen:
    seen = Seen()
    await page.until(DRAWN)
    for table in ("workers", "plans", "prefixes", "decisions"):
        seen.rows[table] = await page.get(f"document.querySelectorAll('#{table} tbody tr').length")
    seen.facts["tiles"] = await page.get("document.getElementById('tiles').innerText")
    seen.facts["verdict"] = await page.get("document.getElementById('verdict').innerText")
    seen.facts["lines"] = await page.get("document.querySelectorAll('.charts svg path[d^=M]').length")
    seen.facts["marks"] = await page.get("[...document.querySelectorAll('#pools .mark')].map((it) => it.textContent)")
    await colours(page, seen)
    await keyboard(page, seen)
    seen.complaints = page.complaints()
    return seen


async def colours(page: Page, seen: Seen) -> None:
    background = "getComputedStyle(document.body).backgroundColor"
    for dark in (False, True):
        await page.prefer(dark=dark)
        seen.facts["dark" if dark else "light"] = await page.get(background)
    await page.press("t")
    seen.facts["turned"] = await page.get(background)


async def keyboard(page: Page, seen: Seen) -> None:
    focused = "document.activeElement.textContent"
    for key in ("j", "j"):
        await page.press(key)
    asked = await page.get(ASKED)
    await page.until(f"{ASKED} >= {asked} + 2")  # drawn anew at least once
    seen.facts["focused"] = await page.get(focused)
    await page.press("Enter")
    await page.until("document.getElementById('decision').open")
    seen.facts["opened"] = await page.get("document.getElementById('decision').innerText")
    await page.press("Escape")
    await page.until("!document.getElementById('decision').open")
    await page.press("/")
    for letter in "third":
        await page.press(letter)
    await page.press("Enter")
    await page.until("document.getElementById('decision').open")
    seen.facts["found"] = await page.get("document.getElementById('decision-title').textContent")


async def scenario() -> Seen:
    shown = console()

    def handle(request: Request, exchange: Exchange) -> None:
        if not shown.answer(request, exchange):
            exchange.respond(json_error(404, "not here"))

    path = find_chromium()
    assert path is not None
    server = HttpServer(handle, limits=Limits())
    await server.start("127.0.0.1", 0)
    try:
        async with chromium(path) as browser:
            return await look(await browser.open(f"http://127.0.0.1:{server.port}/console"))
    finally:
        await shown.close()
        server.close()


@pytest.fixture(scope="module")
def seen() -> Seen:
    return asyncio.run(scenario())


def test_every_part_renders(seen: Seen) -> None:
    assert seen.rows == {"workers": 3, "plans": 2, "prefixes": 1, "decisions": 3}
    assert seen.facts["lines"] == 6
    assert "86.6 % within 2 s" in seen.facts["tiles"]
    assert seen.facts["verdict"].startswith("The objective is missed. TTFT since ")
    assert seen.facts["verdict"].endswith("70.0 % came within 2 s. Now the planner: more came.")
    assert ["more came" in each for each in seen.facts["marks"]] == [True, True]


def test_the_browser_has_nothing_to_complain_of(seen: Seen) -> None:
    assert seen.complaints == []


def test_colours_follow_what_is_preferred_and_the_key(seen: Seen) -> None:
    assert seen.facts["light"] != seen.facts["dark"]
    assert seen.facts["turned"] == seen.facts["light"]


def test_the_keyboard_reaches_a_decision_and_keeps_its_place(seen: Seen) -> None:
    assert seen.facts["focused"] == "second"
    assert "Request second" in seen.facts["opened"]
    assert "Cost, ms" in seen.facts["opened"]
    assert seen.facts["found"] == "Request third"
