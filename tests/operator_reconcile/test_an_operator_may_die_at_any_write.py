"""A life with edits, failures and operators that die between two writes ends as what was asked for."""

from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from inferplane_operator.reconcile.testing import FakeCluster
from inferplane_operator.reconcile.values import CanaryVerdict, Judgement

ENVIRONMENTS = st.sampled_from(["1", "2", "3"])


class Life(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.cluster = FakeCluster(
            {
                "apiVersion": "inferplane.dev/v1alpha1",
                "kind": "InferenceService",
                "metadata": {"name": "demo"},
                "spec": {
                    "model": {"name": "m"},
                    "engine": {"type": "sim"},
                    "prefill": {"replicas": 1, "maxReplicas": 4},
                    "decode": {"replicas": 2, "maxReplicas": 4},
                },
            }
        )

    @rule()
    def look(self) -> None:
        self.cluster.reconcile()

    @rule(share=st.floats(0, 1))
    def die_between_two_writes(self, share: float) -> None:
        outcome = self.cluster.core.service(self.cluster.observed())
        every = (*outcome.writes, *outcome.status)
        for write in every[: int(len(every) * share)]:
            self.cluster.write(write)
        self.cluster.control()

    @rule()
    def start(self) -> None:
        self.cluster.start_pods()

    @rule()
    def end(self) -> None:
        self.cluster.end_pods()

    @rule(value=ENVIRONMENTS)
    def change(self, value: str) -> None:
        self.cluster.edit({"engine": {"type": "sim", "env": {"A": value}}})

    @rule(count=st.integers(0, 4))
    @precondition(lambda self: ("DecodePool", "demo-decode") in self.cluster.objects)
    def scale(self, count: int) -> None:
        self.cluster.pool("demo-decode")["spec"]["replicas"] = count

    @rule(judgement=st.sampled_from([None, *Judgement]))
    def judge(self, judgement: Judgement | None) -> None:
        revision = self.cluster.service.get("status", {}).get("revision", "")
        self.cluster.canary = None if judgement is None else CanaryVerdict(revision, judgement)

    @rule(data=st.data())
    @precondition(lambda self: self.cluster.pods())
    def crash(self, data: st.DataObject) -> None:
        self.cluster.crash(data.draw(st.sampled_from(self.cluster.pods())))

    @rule(flag=st.sampled_from(["paused", "freeze"]), value=st.sampled_from([None, "true"]))
    def hold(self, flag: str, value: str | None) -> None:
        self.cluster.annotate(**{flag: value})

    def teardown(self) -> None:
        cluster = self.cluster
        cluster.annotate(paused=None, freeze=None, retry="once more")
        cluster.canary = None
        assert cluster.settle() < 60
        assert_wanted(cluster)


def assert_wanted(cluster: FakeCluster) -> None:
    status = cluster.service["status"]
    wanted = {pool["metadata"]["name"]: pool["spec"]["replicas"] for pool in pools(cluster)}
    found = {name: len(cluster.pods(name, status["revision"])) for name in wanted}
    assert found == wanted
    assert len(cluster.pods()) == sum(wanted.values())
    assert "failedRevision" not in status
    serves = wanted["demo-decode"] > 0
    assert cluster.condition("Ready")["status"] == ("True" if serves else "False")
    before = cluster.changes
    outcome = cluster.reconcile()
    assert (cluster.changes, outcome.status, list(outcome.events)) == (before, (), [])


def pools(cluster: FakeCluster) -> list[dict[str, Any]]:
    return [*cluster.of("PrefillPool"), *cluster.of("DecodePool")]


TestLife = pytest.mark.timeout(300)(pytest.mark.slow(Life.TestCase))  # twenty lives, on whatever cores there are
TestLife.settings = settings(
    max_examples=20,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    phases=(Phase.reuse, Phase.generate),
)
