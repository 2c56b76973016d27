"""`top`: what a console's document says, in lines."""

import asyncio
import json
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import orjson
import pytest
from click.testing import Result

from inferplane.commands.top import drawn
from inferplane.top_view import trend
from inferplane.verdict import verdict
from inferplane_api.catalogue import WorkerRole
from inferplane_api.proto.router_pb2 import PlanNotice
from inferplane_router.console.console import Console, Surroundings
from inferplane_router.console.history import SAMPLE_S
from inferplane_router.core.testing import FakeWorker, ask, make_core, prompt
from inferplane_router.gateway.attainment import Verdict
from inferplane_router.gateway.meters import GatewayMeters
from inferplane_router.grpc.siblings import NO_SIBLINGS
from inferplane_runtime.clock import FakeClock
from inferplane_runtime.metrics.instruments import Instruments

Call = Callable[..., Result]


def state() -> dict[str, Any]:
    """Return the document of a router with two workers, after twenty streams of which one missed."""
    core = make_core(FakeWorker("p0", WorkerRole.PREFILL), FakeWorker("d0"))
    meters, clock = GatewayMeters(Instruments()), FakeClock()
    console = Console(Surroundings(core, meters, clock, lambda: "", NO_SIBLINGS))
    console.keep_sampling()
    for number in range(20):
        meters.of(("default", "chat")).judged(Verdict(ttft=number > 0, tpot=True), priority=0, tenant="")
        meters.of(("default", "chat")).ttft.observe(0.15)
    core.pick(ask(core, "r1", prompt(1, 64)), 0.0)
    clock.advance(SAMPLE_S)
    console.keep_sampling()
    console.planned(PlanNotice(service="chat", prefill=2, decode=1, acting=True, reason="prompts grew longer"))
    found: dict[str, Any] = orjson.loads(orjson.dumps(asyncio.run(console.picture())))
    return found


def test_one_look_has_the_objective_the_sides_and_every_worker() -> None:
    lines = drawn(state(), colour=False)

    text = "\n".join(lines)
    assert "1 running, 0 waiting   workers 1P:1D" in text
    assert "95.0% in time" in text
    assert "planned 2P:1D: prompts grew longer" in text
    assert [line.split()[:3] for line in lines if line.startswith(("p0", "d0"))] == [
        ["p0", "prefill", "ready"],
        ["d0", "decode", "ready"],
    ]


def told(half: str, *, lasts: bool) -> dict[str, Any]:
    return {half: {"began": 1e9, "ended": 1e9 + 60, "met": 0.625, "lasts": lasts}}


@pytest.mark.parametrize(
    ("missed", "expected"),
    [
        pytest.param({}, "The objective holds.", id="a router of before"),
        pytest.param({"ttft": None, "tpot": None}, "The objective holds.", id="never"),
        pytest.param(
            told("ttft", lasts=True),
            "The objective is missed. TTFT since 01:46:40 UTC: 62.5% in time.",
            id="now",
        ),
        pytest.param(
            told("tpot", lasts=False),
            "The objective holds. TPOT was missed from 01:46:40 to 01:47:40 UTC: 62.5% in time.",
            id="then",
        ),
    ],
)
def test_the_verdict_comes_first(missed: dict[str, Any], expected: str) -> None:
    (service,) = state()["services"]

    assert verdict({**service, "missed": missed}) == expected


def test_a_verdict_names_who_does_not_serve() -> None:
    (service,) = state()["services"]
    workers = [{**it, "health": "failed"} for it in service["workers"]]

    assert verdict({**service, "workers": workers}).startswith("No decode worker takes requests.")
    assert verdict({**service, "workers": [*service["workers"], workers[0]]}).endswith("holds. p0 is failed.")


def test_nothing_is_said_where_nothing_was_counted() -> None:
    empty: dict[str, Any] = {**state(), "decisions": []}
    empty["services"][0] |= {"ttftMet": None, "tpotMet": None, "ttft": None, "tpot": None, "history": []}

    text = "\n".join(drawn(empty, colour=False))

    assert "budget burns -   hits -" in text


@pytest.mark.parametrize(
    ("shares", "expected"),
    [([], ""), ([0.0, 0.5, 1.0], "▁▅█"), ([None, 1.0], " █"), ([0.0] * 100, "▁" * 40)],
)
def test_a_trend_is_as_high_as_its_shares(shares: list[float | None], expected: str) -> None:
    assert trend(shares) == expected


@contextmanager
def serving(status: int, body: bytes) -> Generator[str]:
    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None: ...  # noqa: A002 - the library's name

    server = HTTPServer(("127.0.0.1", 0), Answer)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_once_prints_what_the_gateway_serves_and_json_all_of_it(call: Call) -> None:
    document = state()
    with serving(200, orjson.dumps(document)) as url:
        once = call("top", "--once", "--url", url)
        whole = call("top", "--url", url, "-o", "json")

    assert once.output.splitlines() == drawn(document, colour=False)
    assert json.loads(whole.output) == document


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (404, b"{}", "its console is off"),
        (200, b"<html>", "gives no state"),
        (200, b"[]", "is not a router's console"),
        (500, b"{}", "gives no state"),
    ],
)
def test_what_is_no_console_is_told(call: Call, status: int, body: bytes, words: str) -> None:
    with serving(status, body) as url:
        found = call("top", "--once", "--url", url)

    assert found.exit_code == 1
    assert words in found.stderr


def test_a_gateway_that_is_not_there_is_told(call: Call) -> None:
    found = call("top", "--once", "--url", "http://127.0.0.1:1")

    assert (found.exit_code, "does not answer" in found.stderr) == (1, True)
