"""The planner of an installed chart on a service under load: workers follow, the objective comes back, people win.

The engine is simulated with the times of a real accelerator, so a few requests a second are a load.
"""

import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

from e2e.support.cluster import Cluster
from e2e.support.conversation import Chat
from e2e.support.namespaces import namespace_of
from e2e.support.release import Release
from e2e.support.services import Service, sim_service
from e2e.support.traffic import Shape, Traffic
from e2e.support.waiting import until

pytestmark = [pytest.mark.timeout(600, func_only=True), pytest.mark.usefixtures("release")]
QUIET: Final = Shape(rate_per_s=0.6, prompt_tokens=300, answer_tokens=20)
LONG_PROMPTS: Final = Shape(rate_per_s=2.0, prompt_tokens=5000, answer_tokens=10)
LONG_ANSWERS: Final = Shape(rate_per_s=2.0, prompt_tokens=200, answer_tokens=200)
PERIOD_S: Final = 1
KEPT_S: Final = 10
"""For how long a plan that asks for fewer workers has to last."""
_ENGINE: Final[dict[str, Any]] = {
    "type": "sim",
    "blockSize": 16,
    "maxModelLen": 8192,
    "maxNumSeqs": 8,
    "sim": {"profile": "l40s-8b"},
}


@dataclass
class Planned:
    """A service that is planned, and how many workers were asked for, step by step."""

    service: Service
    steps: dict[str, list[int]] = field(default_factory=dict[str, list[int]])

    @property
    def plan(self) -> dict[str, Any]:
        found: dict[str, Any] = self.service.object.get("status", {}).get("plan", {})
        return found

    def pool(self, role: str) -> dict[str, Any]:
        name = f"{self.service.name}-{role}"
        return self.service.cluster.get(f"{role}pools.inferplane.dev", name, namespace=self.service.namespace)

    def wanted(self, role: str) -> int:
        """Return how many workers of a role are asked for, and note it."""
        count = int(self.pool(role)["spec"]["replicas"])
        steps = self.steps.setdefault(role, [count])
        if steps[-1] != count:
            steps.append(count)
        return count

    def look(self) -> tuple[int, int]:
        return self.wanted("prefill"), self.wanted("decode")

    def serves(self, prefill: int, decode: int) -> bool:
        """Whether at least so many are asked for, and all of them serve."""
        counts = self.look()
        ready = tuple(len(self.service.ready_pods(role)) for role in ("prefill", "decode"))
        return counts[0] >= prefill and counts[1] >= decode and ready == counts

    def settles(self) -> None:
        """Wait until no number has changed for longer than workers are kept in case they are needed again."""
        since, seen = time.monotonic(), self.look()

        def stood() -> bool:
            nonlocal since, seen
            if (now := self.look()) != seen:
                since, seen = time.monotonic(), now
            return time.monotonic() - since > KEPT_S + 5

        until(stood, 180, what="numbers that stand")

    def meets(self) -> bool:
        self.look()
        return bool(self.service.condition("SLOMet").get("status") == "True")


@pytest.fixture(scope="module")
def planned(cluster: Cluster, release: Release) -> Iterator[Planned]:
    """Give a service that the release's planner plans, with one worker of each kind."""
    release.install(planner={"enabled": True, "periodS": PERIOD_S})
    try:
        with namespace_of(cluster, "planned") as name:
            made = Service(cluster, name, "chat")
            made.apply(
                sim_service(
                    "chat",
                    served=name,
                    engine=_ENGINE,
                    slo={"ttft": "2s", "tpot": "100ms", "percentile": 90, "window": "15s"},
                    scaling={"mode": "slo", "scaleDownDelay": f"{KEPT_S}s", "maxStep": 2},
                    budget={"maxDevices": 6},
                )
            )
            made.wait_ready(240)
            yield Planned(made)
    finally:
        release.install()


@pytest.fixture(scope="module")
def traffic(planned: Planned, release: Release) -> Iterator[Traffic]:
    with Traffic(Chat(release.url, planned.service.namespace), QUIET) as running:
        until(lambda: running.ended >= 3, 120, what="first answers")
        yield running
    assert running.wrong == []


def test_a_light_load_is_planned_observed_and_shown(planned: Planned, traffic: Traffic) -> None:
    assert traffic.asked
    until(lambda: planned.plan.get("verdict") == "Met", 120, what="a plan that keeps the objective")
    until(planned.meets, 120, what="SLOMet")
    until(lambda: not planned.service.object["status"]["columns"]["ttft"].startswith("-"), 60, what="a TTFT")
    columns = planned.service.object["status"]["columns"]

    assert planned.look() == (1, 1)
    assert columns["ratio"] == "1:1"
    assert columns["ttft"].endswith("/2s")
    assert columns["tpot"].endswith("/100ms")
    assert planned.service.condition("KVRoutingHealthy")["reason"] == "PredictionsMatch"


def test_long_prompts_bring_prefill_workers_and_the_objective_comes_back(planned: Planned, traffic: Traffic) -> None:
    planned.steps.clear()
    traffic.shape = LONG_PROMPTS
    until(lambda: planned.serves(2, 1), 240, what="a second prefill worker")
    until(planned.meets, 180, what="SLOMet after the step")
    planned.settles()  # the demand was still rising when the objective was back

    assert planned.steps["prefill"] == sorted(planned.steps["prefill"])
    assert planned.steps["decode"] == [1]
    assert owner(planned.pool("prefill")) == "inferplane-planner"


def test_long_answers_bring_decode_workers_and_prefill_workers_go(planned: Planned, traffic: Traffic) -> None:
    planned.steps.clear()
    traffic.shape = LONG_ANSWERS
    until(lambda: planned.serves(1, 2), 240, what="a second decode worker")
    until(lambda: planned.look()[0] == 1, 240, what="prefill back to one worker")
    until(planned.meets, 180, what="SLOMet after the shift")

    assert planned.steps["decode"] == sorted(planned.steps["decode"])
    assert planned.steps["prefill"] == sorted(planned.steps["prefill"], reverse=True)


def test_a_constant_load_keeps_its_workers(planned: Planned, traffic: Traffic) -> None:
    planned.settles()
    planned.steps.clear()
    before, began = planned.look(), traffic.ended
    until(lambda: planned.look() and traffic.ended >= began + 30, 180, what="thirty more answers")

    assert planned.steps == {"prefill": [before[0]], "decode": [before[1]]}


def test_who_scales_by_hand_is_left_alone_until_the_scaling_is_edited(planned: Planned, traffic: Traffic) -> None:
    assert traffic.asked
    service = planned.service
    pool = f"decodepool/{service.name}-decode"
    service.cluster.kubectl("scale", "-n", service.namespace, pool, "--replicas=4")
    until(lambda: planned.plan.get("verdict") == "External", 60, what="a plan that leaves it alone")
    reason = planned.plan["reason"]
    began = traffic.ended
    until(lambda: traffic.ended >= began + 10, 180, what="ten more answers")
    held = planned.wanted("decode")
    service.edit(scaling={"scaleDownDelay": "8s"})
    until(lambda: planned.plan.get("verdict") not in {"External", None}, 60, what="a plan after the edit")

    assert "kubectl" in reason
    assert held == 4
    until(lambda: planned.wanted("decode") < 4, 180, what="the planner's own number")


def test_advice_is_told_and_not_followed(planned: Planned, traffic: Traffic) -> None:
    with advised(planned):
        planned.steps.clear()
        before = planned.look()
        traffic.shape = LONG_PROMPTS
        until(lambda: planned.look() and planned.plan.get("prefillReplicas", 0) > before[0], 120, what="advice")

        assert planned.plan["acting"] is False
        assert planned.look() == before
        traffic.shape = QUIET


@contextmanager
def advised(planned: Planned) -> Generator[None]:
    planned.service.edit(scaling={"mode": "advise"})
    try:
        until(lambda: planned.plan.get("acting") is False, 60, what="mode advise")
        yield
    finally:
        planned.service.edit(scaling={"mode": "slo"})


def owner(pool: dict[str, Any]) -> str:
    """Return who set the replicas last; an API server keeps one."""
    (found,) = (
        str(entry["manager"])
        for entry in pool["metadata"]["managedFields"]
        if "f:replicas" in entry["fieldsV1"].get("f:spec", {})
    )
    return found
