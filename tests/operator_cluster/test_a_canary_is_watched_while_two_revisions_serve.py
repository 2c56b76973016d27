"""Counters of old and new Pods over one window."""

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from inferplane_operator.cluster.canary_counters import CanaryCounters, totals_of
from inferplane_operator.reconcile.values import Judgement, Observed
from inferplane_runtime.clock import FakeClock
from inferplane_runtime.http.api import Request
from inferplane_runtime.http.testing import RecordedExchange
from inferplane_runtime.metrics.catalogue import agent
from inferplane_runtime.metrics.exposition import exposition_handler
from inferplane_runtime.metrics.instruments import Instruments

pytestmark = pytest.mark.anyio


class Worker:
    """What one agent counts, as its page says it."""

    def __init__(self) -> None:
        make = Instruments()
        self._registry = make.registry
        self._requests = make.cells(agent.REQUESTS)
        self._prompt, self._output = make.cells(agent.PROMPT_TOKENS), make.cells(agent.OUTPUT_TOKENS)
        self._failures = make.cells(agent.CANARY_FAILURES)
        self._prefill = make.distributions(agent.PREFILL_TIME).labels()
        self._duration, self._ttft = make.distributions(agent.REQUEST_DURATION), make.distributions(agent.TTFT)

    def serve(self, count: int, *, prefill_s: float = 0.1, outcome: str = "ok") -> None:
        for _ in range(count):
            self._requests.labels("decode", outcome).inc()
            self._prompt.labels().inc(100)
            self._output.labels().inc(10)
            self._prefill.observe(prefill_s)
            self._ttft.labels("decode").observe(prefill_s)
            self._duration.labels("decode").observe(prefill_s + 0.5)

    def fail_canary(self) -> None:
        self._failures.labels().inc()

    def page(self) -> str:
        exchange = RecordedExchange()
        exposition_handler(self._registry)(Request(b"GET", b"/metrics"), exchange)
        return exchange.body.decode()


@dataclass
class Fleet:
    workers: dict[str, Worker] = field(default_factory=dict[str, Worker])
    asked: list[str] = field(default_factory=list[str])

    async def metrics(self, address: str) -> str:
        self.asked.append(address)
        found = self.workers.get(address)
        return found.page() if found else ""

    def worker(self, address: str) -> Worker:
        return self.workers.setdefault(address, Worker())


def pod(name: str, revision: str, *, ready: bool = True) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": {"inferplane.dev/revision": revision}},
        "status": {"podIP": name, "conditions": [{"type": "Ready", "status": "True" if ready else "False"}]},
    }


def observed(*pods: dict[str, Any], revision: str = "new") -> Observed:
    pools = [{"metadata": {"name": "p"}, "spec": {"revision": revision}}]
    return Observed(service={"metadata": {"namespace": "ns", "name": "s"}}, pools=pools, pods=pods)


@pytest.fixture
def fleet() -> Fleet:
    return Fleet()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def canary(fleet: Fleet, clock: FakeClock) -> CanaryCounters:
    return CanaryCounters(fleet, now=clock.monotonic)


def test_a_page_is_reduced_to_sums_over_its_labels() -> None:
    worker = Worker()
    worker.serve(3)
    worker.serve(2, outcome="engine_lost")
    worker.serve(4, outcome="client_gone")
    totals = totals_of(worker.page())

    assert totals["requests"] == 9
    assert totals["errors"] == 2
    assert totals["prompt"] == 900
    assert totals["prefills"] == 9
    assert totals["duration_s"] - totals["ttft_s"] == pytest.approx(4.5)


async def test_nobody_is_asked_and_nobody_judges_while_one_revision_serves(
    canary: CanaryCounters, fleet: Fleet
) -> None:
    found = await canary.add_to(observed(pod("a", "new"), pod("b", "new")))

    assert found.observed.canary is None
    assert found.again_in_s is None
    assert fleet.asked == []


async def test_what_happened_before_the_window_does_not_count(
    canary: CanaryCounters, fleet: Fleet, clock: FakeClock
) -> None:
    pods = (pod("old", "before"), pod("new", "new"))
    fleet.worker("old").serve(1000, prefill_s=60.0)
    fleet.worker("new").serve(1, prefill_s=60.0)
    first = await canary.add_to(observed(*pods))
    assert first.observed.canary is not None
    assert first.observed.canary.judgement is Judgement.WAIT
    assert first.again_in_s is not None

    clock.advance(20.0)
    fleet.worker("old").serve(50)
    fleet.worker("new").serve(50)
    second = await canary.add_to(observed(*pods))
    assert second.observed.canary is not None
    assert second.observed.canary.judgement is Judgement.PASS
    assert second.again_in_s is None


@pytest.mark.parametrize(
    ("written", "watched_s"), [({}, 30.0), ({"canaryTime": "4s"}, 4.0), ({"canaryTime": "soon"}, 30.0)]
)
async def test_without_traffic_a_revision_is_watched_as_long_as_its_service_says(
    canary: CanaryCounters, clock: FakeClock, written: dict[str, str], watched_s: float
) -> None:
    seen = observed(pod("old", "before"), pod("new", "new"))
    seen = replace(seen, service={**seen.service, "spec": {"rollout": written}})
    waited_s = 0.0
    while (found := await canary.add_to(seen)).again_in_s is not None:
        assert found.again_in_s <= 5
        clock.advance(found.again_in_s)
        waited_s += found.again_in_s

    assert found.observed.canary is not None
    assert found.observed.canary.judgement is Judgement.PASS
    assert waited_s == watched_s


async def test_a_slow_revision_fails(canary: CanaryCounters, fleet: Fleet, clock: FakeClock) -> None:
    pods = (pod("old", "before"), pod("new", "new"))
    for address in ("old", "new"):
        fleet.worker(address)
    await canary.add_to(observed(*pods))
    clock.advance(20.0)
    fleet.worker("old").serve(50, prefill_s=0.1)
    fleet.worker("new").serve(50, prefill_s=0.9)
    found = await canary.add_to(observed(*pods))

    assert found.observed.canary is not None
    assert found.observed.canary.judgement is Judgement.FAIL


@pytest.mark.parametrize(("ttft", "judgement"), [("500ms", Judgement.FAIL), ("5s", Judgement.PASS)])
async def test_how_slow_is_noticed_depends_on_the_objective(
    canary: CanaryCounters, fleet: Fleet, clock: FakeClock, ttft: str, judgement: Judgement
) -> None:
    seen = observed(pod("old", "before"), pod("new", "new"))
    seen = replace(seen, service={**seen.service, "spec": {"slo": {"ttft": ttft}}})
    for address in ("old", "new"):
        fleet.worker(address)
    await canary.add_to(seen)
    clock.advance(20.0)
    fleet.worker("old").serve(50, prefill_s=0.1)
    fleet.worker("new").serve(50, prefill_s=0.3)
    found = await canary.add_to(seen)

    assert found.observed.canary is not None
    assert found.observed.canary.judgement is judgement


async def test_a_worker_that_began_anew_counts_from_zero(
    canary: CanaryCounters, fleet: Fleet, clock: FakeClock
) -> None:
    pods = (pod("old", "before"), pod("new", "new"))
    fleet.worker("old").serve(500)
    fleet.worker("new").serve(500, prefill_s=9.0)
    await canary.add_to(observed(*pods))
    clock.advance(20.0)
    fleet.workers["new"] = Worker()
    fleet.worker("new").serve(40)
    fleet.worker("old").serve(40)
    found = await canary.add_to(observed(*pods))

    assert found.observed.canary is not None
    assert found.observed.canary.judgement is Judgement.PASS


async def test_the_window_opens_when_the_first_new_worker_is_ready(
    canary: CanaryCounters, fleet: Fleet, clock: FakeClock
) -> None:
    fleet.worker("old")
    for _ in range(10):
        clock.advance(60.0)
        found = await canary.add_to(observed(pod("old", "before"), pod("new", "new", ready=False)))
        assert found.observed.canary is not None
        assert found.observed.canary.judgement is Judgement.WAIT


async def test_another_rollout_has_another_window(canary: CanaryCounters, fleet: Fleet, clock: FakeClock) -> None:
    fleet.worker("old")
    fleet.worker("new").fail_canary()
    await canary.add_to(observed(pod("old", "before"), pod("new", "new")))
    clock.advance(100.0)
    fleet.worker("newer")
    found = await canary.add_to(observed(pod("old", "before"), pod("newer", "newer"), revision="newer"))

    assert found.observed.canary is not None
    assert found.observed.canary.revision == "newer"
    assert found.observed.canary.judgement is Judgement.WAIT


async def test_a_pod_without_an_answer_is_left_out(canary: CanaryCounters, clock: FakeClock) -> None:
    pods = (pod("old", "before"), pod("new", "new"))
    await canary.add_to(observed(*pods))
    clock.advance(60.0)
    found = await canary.add_to(observed(*pods))

    assert found.observed.canary is not None
    assert found.observed.canary.judgement is Judgement.PASS  # readiness alone decides after the quiet time
