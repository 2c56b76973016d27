"""The console shows what the core knows and the gateway has counted."""

from typing import Any

import orjson

from inferplane_api.catalogue import WorkerRole
from inferplane_router.console.console import SAMPLE_S, Console
from inferplane_router.core.testing import FakeWorker, ask, make_core, prompt
from inferplane_router.gateway.attainment import Verdict
from inferplane_router.gateway.meters import GatewayMeters
from inferplane_runtime.clock import FakeClock
from inferplane_runtime.metrics.instruments import Instruments


class Shown:
    """A console over a core with one prefill and one decode worker."""

    def __init__(self) -> None:
        prefill = FakeWorker("p0", WorkerRole.PREFILL)
        self.core = make_core(prefill, FakeWorker("d0"))
        self.meters = GatewayMeters(Instruments())
        self.clock = FakeClock()
        self.console = Console(self.core, self.meters, self.clock, lambda: "")

    def streams(self, *, met: int, missed: int) -> None:
        meters = self.meters.of("chat")
        for within in [True] * met + [False] * missed:
            meters.judged(Verdict(ttft=within, tpot=True), priority=0, tenant="")
            meters.ttft.observe(0.15 if within else 2.5)

    def later(self, seconds: float = SAMPLE_S) -> None:
        self.clock.advance(seconds)
        self.console.keep_sampling(self.clock.monotonic())

    def document(self) -> dict[str, Any]:
        found: dict[str, Any] = orjson.loads(orjson.dumps(self.console.picture()))
        return found


def test_workers_and_what_they_are_good_for() -> None:
    (service,) = Shown().document()["services"]

    assert [(it["id"], it["role"], it["health"]) for it in service["workers"]] == [
        ("p0", "prefill", "ready"),
        ("d0", "decode", "ready"),
    ]


def test_the_objective_over_the_window_and_over_time() -> None:
    shown = Shown()
    shown.later(0)
    shown.streams(met=9, missed=1)
    shown.later()
    shown.streams(met=10, missed=0)
    shown.later()

    (service,) = shown.document()["services"]

    assert (service["ttftMet"], service["tpotMet"], service["judged"]) == (0.95, 1.0, 20)
    assert [it["ttftMet"] for it in service["history"]] == [0.9, 1.0]
    assert [(it["prefill"], it["decode"]) for it in service["history"]] == [(1, 1)] * 2
    assert service["ttft"] > 2.0  # its 99th percentile is the one that was late


def test_samples_come_no_oftener_than_they_should() -> None:
    shown = Shown()
    for _ in range(10):
        shown.later(SAMPLE_S / 4)

    (service,) = shown.document()["services"]

    assert len(service["history"]) == 2


def test_the_newest_decision_comes_first_with_where_it_went() -> None:
    shown = Shown()
    for name in ("first", "second"):
        shown.core.pick(ask(shown.core, name, prompt(1, 64)), 1.0)

    newest, before = shown.document()["decisions"]

    assert (newest["id"], before["id"]) == ("second", "first")
    assert newest["decode"] == "d0"
    assert (newest["promptTokens"], before["hitTokens"]) == (64, 0)


def test_one_request_is_explained_whole() -> None:
    shown = Shown()
    shown.core.pick(ask(shown.core, "mine", prompt(1, 64)), 1.0)

    answer = shown.console.answer(b"/console/requests/mine")

    assert answer is not None
    record = orjson.loads(answer.body)
    assert record["requestId"] == "mine"
    assert [it["decodeWorker"] for it in record["candidates"] if it.get("chosen")] == ["d0"]
