"""The console shows what the core knows and the gateway has counted."""

import asyncio
from typing import Any

import orjson

from inferplane_api.catalogue import WorkerRole
from inferplane_api.proto.router_pb2 import CompleteRequest, DecisionRecord, PlanNotice
from inferplane_router.console.console import Console, Surroundings
from inferplane_router.console.history import SAMPLE_S
from inferplane_router.console.plans import Plans
from inferplane_router.core.testing import FakeWorker, ask, make_core, prompt
from inferplane_router.gateway.attainment import Verdict
from inferplane_router.gateway.meters import GatewayMeters
from inferplane_router.grpc.siblings import NO_SIBLINGS, Siblings
from inferplane_runtime.clock import FakeClock
from inferplane_runtime.http.api import Request
from inferplane_runtime.http.testing import RecordedExchange
from inferplane_runtime.metrics.instruments import Instruments


class Shown:
    """A console over a core with one prefill and one decode worker."""

    def __init__(self, others: Siblings = NO_SIBLINGS, *, processes: int = 1) -> None:
        prefill = FakeWorker("p0", WorkerRole.PREFILL)
        self.core = make_core(prefill, FakeWorker("d0"))
        self.meters = GatewayMeters(Instruments())
        self.clock = FakeClock()
        self.console = Console(Surroundings(self.core, self.meters, self.clock, lambda: "", others, processes))

    def streams(self, *, met: int, missed: int) -> None:
        meters = self.meters.of(("default", "chat"))
        for within in [True] * met + [False] * missed:
            meters.judged(Verdict(ttft=within, tpot=True), priority=0, tenant="")
            meters.ttft.observe(0.15 if within else 2.5)

    def later(self, seconds: float = SAMPLE_S) -> None:
        self.clock.advance(seconds)
        self.console.keep_sampling()

    def document(self) -> dict[str, Any]:
        found: dict[str, Any] = orjson.loads(orjson.dumps(asyncio.run(self.console.picture())))
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


def asked(shown: Shown, path: bytes, method: bytes = b"GET") -> RecordedExchange:
    async def ask_once() -> RecordedExchange:
        exchange = RecordedExchange()
        assert shown.console.answer(Request(method, path), exchange)
        await exchange.wait()
        return exchange

    return asyncio.run(ask_once())


def test_one_request_is_explained_whole() -> None:
    shown = Shown()
    shown.core.pick(ask(shown.core, "mine", prompt(1, 64)), 1.0)

    record = orjson.loads(asked(shown, b"/console/requests/mine").body)

    assert record["requestId"] == "mine"
    assert [it["decodeWorker"] for it in record["candidates"] if it.get("chosen")] == ["d0"]


def test_a_request_that_nobody_remembers_is_not_found() -> None:
    exchange = asked(Shown(), b"/console/requests/gone%20one")

    assert exchange.status == 404
    assert "gone one" in orjson.loads(exchange.body)["error"]["message"]


def test_nothing_is_changed_through_it_and_other_paths_are_not_its_own() -> None:
    shown = Shown()

    assert asked(shown, b"/console/state", b"POST").status == 405
    assert not shown.console.answer(Request(b"GET", b"/consolation"), RecordedExchange())


def test_what_prompts_have_in_common_is_shown_with_who_holds_it() -> None:
    shown = Shown()
    for name in ("first", "second"):
        shown.core.pick(ask(shown.core, name, prompt(1, 64)), 1.0)

    (prefix,) = shown.document()["services"][0]["prefixes"]

    assert (prefix["tokens"], prefix["asked"]) == (64, 2)
    assert "d0" in prefix["held"]  # as was predicted with the first


def plan(prefill: int, decode: int, reason: str = "") -> PlanNotice:
    return PlanNotice(service="chat", prefill=prefill, decode=decode, acting=True, verdict="Met", reason=reason)


def test_the_planners_moves_are_kept_with_their_reasons() -> None:
    shown = Shown()
    for told in (plan(1, 1, "as it began"), plan(1, 1, "the same"), plan(2, 1, "prompts grew longer")):
        shown.console.planned(told)

    (service,) = shown.document()["services"]

    assert [it["reason"] for it in service["plans"]] == ["as it began", "prompts grew longer"]
    assert (service["plan"]["prefill"], service["plan"]["decode"]) == (2, 1)


def test_plans_of_a_service_that_is_gone_are_forgotten() -> None:
    plans = Plans()
    plans.told(PlanNotice(service="old", namespace="default", prefill=1, decode=1))
    plans.told(plan(1, 1))
    plans.keep([("default", "chat")])

    assert plans.latest("default", "old") is None
    assert plans.latest("default", "chat") is not None


class Others:
    """Another process of the same router, and one that does not answer."""

    def __init__(self, other: Shown) -> None:
        self._other = other

    async def pictures(self) -> list[dict[str, Any]]:
        return [orjson.loads(self._other.console.part())]

    async def explain(self, request_id: str, /) -> DecisionRecord | None:
        return self._other.core.explain(request_id)

    def complete(self, request: CompleteRequest, /) -> None: ...

    def planned(self, notice: PlanNotice, /) -> None: ...


def test_who_is_asked_shows_all_processes_and_says_which_are_missing() -> None:
    other = Shown()
    shown = Shown(Others(other), processes=3)
    for each in (other, shown):
        each.later(0)
    other.streams(met=8, missed=2)
    shown.streams(met=10, missed=0)
    other.core.pick(ask(other.core, "theirs", prompt(1, 64)), 1.0)
    for each in (other, shown):
        each.later()

    document = shown.document()
    (service,) = document["services"]

    assert document["processes"] == {"answered": 2, "expected": 3}
    assert (service["ttftMet"], service["judged"], service["inFlight"]) == (0.9, 20, 1)
    assert [it["ttftMet"] for it in service["history"]] == [0.9]
    assert [it["id"] for it in document["decisions"]] == ["theirs"]
    assert orjson.loads(asked(shown, b"/console/requests/theirs").body)["requestId"] == "theirs"
