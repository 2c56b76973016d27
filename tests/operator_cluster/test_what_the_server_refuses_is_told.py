"""A write that the API server does not take shows in the service's status, and goes from it when it is taken."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from inferplane_operator.cluster.applied import Memory
from inferplane_operator.cluster.errors import ForeignError, InvalidError, RefusedError
from inferplane_operator.cluster.event_recording import EventRecorder
from inferplane_operator.cluster.intake import Intake
from inferplane_operator.cluster.kinds import CONTROLLER_REVISION, DECODE_POOL, DEPLOYMENT, EVENT, K8S_SERVICE, SERVICE
from inferplane_operator.cluster.kv_store_pages import KVStorePages
from inferplane_operator.cluster.metrics import OperatorMetrics
from inferplane_operator.cluster.objects import Objects
from inferplane_operator.cluster.reconciling import Steps
from inferplane_operator.cluster.store import Store
from inferplane_operator.cluster.stored import ObjectId
from inferplane_operator.cluster.testing import FakeCluster, RecordedQueue
from inferplane_operator.cluster.transport import Answer, Call
from inferplane_operator.cluster.work_keys import WorkKey
from inferplane_operator.cluster.writing import Writer
from inferplane_operator.reconcile.core import PureCore
from inferplane_operator.reconcile.values import Manifest, Observed, Outcome

pytestmark = pytest.mark.anyio
KEY = WorkKey("InferenceService", "ns", "chat")
CHAT: dict[str, Any] = {
    "apiVersion": SERVICE.api_version,
    "kind": "InferenceService",
    "metadata": {"namespace": "ns", "name": "chat"},
    "spec": {
        "model": {"name": "inferplane/sim"},
        "engine": {"type": "sim", "maxModelLen": 8192},
        "mode": "aggregated",
        "decode": {"replicas": 1},
    },
}
THEIRS: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"namespace": "ns", "name": "chat-decode"},
    "spec": {"selector": {"app": "theirs"}, "ports": [{"port": 80}]},
}


@dataclass(slots=True)
class StrictCluster(FakeCluster):
    """Refuses what is written to some paths."""

    refusing: dict[str, Answer] = field(default_factory=dict[str, Answer])

    immutable: bool = False
    """Takes no patch of a ControllerRevision, as where its data has other bytes than this server would write."""

    def answer(self, call: Call) -> Answer:
        if self.immutable and call.method == "PATCH" and "/controllerrevisions/" in call.path:
            return refusal(422, "data: Invalid value: field is immutable")
        for part, answer in self.refusing.items():
            if call.method in ("PATCH", "POST", "DELETE") and part in call.path:
                return answer
        return FakeCluster.answer(self, call)


class NoAdapters:
    """Adapters are not looked at here."""

    async def run(self, observed: Observed, *, commits: Mapping[str, str] | None = None) -> Outcome:
        del observed, commits
        return Outcome()

    def forget(self, namespace: str, name: str) -> None:
        del namespace, name

    async def of_adapters(self, adapters: Sequence[Manifest], key: WorkKey, /) -> Mapping[str, str]:
        del adapters, key
        return {}

    async def metrics(self, address: str, /) -> str:
        del address
        return ""


class World:
    """An operator's shell whose watches are prompt, around the real core."""

    def __init__(self, *others: dict[str, Any]) -> None:
        self.cluster = StrictCluster()
        self.again_in_s: float | None = None
        objects, metrics, memory = Objects(self.cluster), OperatorMetrics(), Memory()
        self.store = Store()
        intake = Intake(self.store, RecordedQueue(), memory, now=lambda: 0.0)

        def hear(what: str, manifest: dict[str, Any]) -> None:
            if what == "DELETED":
                intake.gone(manifest)
            elif "inferplane.dev/service" in manifest["metadata"].get("labels", {}) or manifest["kind"] == SERVICE.kind:
                intake.seen(manifest, listed=False)  # what has not our label is not watched

        self.cluster.listeners.append(hear)
        recorder = EventRecorder(objects, allowed=lambda: None, wall=lambda: 0.0, identity="me", metrics=metrics)
        writer = Writer(
            objects,
            self.store,
            recorder=recorder,
            memory=memory,
            take_in=intake.written,
            allowed=lambda: None,
            metrics=metrics,
        )
        nobody = NoAdapters()
        self.steps = Steps(
            self.store,
            writer,
            PureCore(),
            facts=(),
            adapters=nobody,
            commits=nobody,
            kv_stores=KVStorePages(nobody, now=lambda: 0.0),
            wall=lambda: 1_800_000_000.0,
        )
        for manifest in (*others, CHAT):
            self.cluster.add(manifest)

    def give_pods(self, count: int) -> None:
        """Let the workers' Deployment have so many Pods, all ready."""
        (deployment,) = self.cluster.of(DEPLOYMENT)
        labels = deployment["spec"]["template"]["metadata"]["labels"]
        owned = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": deployment["metadata"]["uid"]}
        made = self.cluster.add(_owned("apps/v1", "ReplicaSet", "rs", labels, owned))
        for number in range(count):
            set_ = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": made["metadata"]["uid"]}
            pod = _owned("v1", "Pod", f"pod-{number}", labels, set_)
            ready = [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]
            self.cluster.add({**pod, "status": {"phase": "Running", "conditions": ready}})

    async def settle(self) -> RefusedError | None:
        """Step until nothing changes any more; return what the last step ended with."""
        while True:
            before, refused = self.cluster.version, None
            try:
                self.again_in_s = await self.steps.step(KEY)
            except RefusedError as error:
                refused = error
            if self.cluster.version == before:
                return refused

    def condition(self, kind: str) -> tuple[str, str, str]:
        found = self.cluster.get(SERVICE, "ns", "chat")
        assert found is not None
        (it,) = (each for each in found["status"]["conditions"] if each["type"] == kind)
        return it["status"], it["reason"], it.get("message", "")


def _owned(version: str, kind: str, name: str, labels: dict[str, str], owner: dict[str, str]) -> dict[str, Any]:
    metadata = {"namespace": "ns", "name": name, "labels": labels, "ownerReferences": [{**owner, "controller": True}]}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": {}}


def refusal(status: int, message: str) -> Answer:
    return Answer(status, f'{{"kind": "Status", "reason": "Invalid", "message": "{message}"}}'.encode())


@pytest.mark.parametrize(
    "answer",
    [
        refusal(422, "spec.template.spec.containers[0].ports[0].containerPort: Invalid value: 99999"),
        refusal(500, "failed to create typed patch object: .spec.template.spec.nodeselector: field not declared"),
    ],
    ids=["a wrong value", "a field that is not there"],
)
async def test_a_workload_that_is_refused_is_told_until_it_is_taken(answer: Answer) -> None:
    world = World()
    world.cluster.refusing["/deployments/"] = answer

    refused = await world.settle()
    assert isinstance(refused, InvalidError)
    status, reason, message = world.condition("Ready")
    assert (status, reason) == ("False", "WorkerRefused")
    assert ".spec.template.spec" in message or "spec.template.spec" in message
    assert world.condition("Degraded")[:2] == ("True", "WorkerRefused")

    world.cluster.refusing.clear()
    assert await world.settle() is None
    assert world.condition("Degraded")[0] == "False"
    assert world.condition("Ready")[1] != "WorkerRefused"


REFUSALS = {
    "a quota": Answer(403, b'{"kind": "Status", "reason": "Forbidden", "message": "exceeded quota: few"}'),
    "a policy": refusal(422, "ValidatingAdmissionPolicy denied request: no notes"),
    "a defect": refusal(500, "failed to create typed patch object: no notes"),
}


@pytest.mark.parametrize("answer", REFUSALS.values(), ids=REFUSALS)
async def test_notes_that_are_refused_hold_up_no_worker_and_are_told(answer: Answer) -> None:
    world = World()
    world.cluster.refusing["/controllerrevisions"] = answer

    assert await world.settle() is None
    assert len(world.cluster.of(DEPLOYMENT)) == 1
    assert world.condition("Ready")[1] != "WorkerRefused"
    status, reason, message = world.condition("Degraded")
    assert (status, reason) == ("True", "NotRecorded")
    assert "the API server refuses what is noted beside the workers" in message
    assert world.again_in_s == 60  # whoever mends it tells nobody

    world.cluster.refusing.clear()
    assert await world.settle() is None
    assert world.condition("Degraded")[0] == "False"
    assert len(world.cluster.of(CONTROLLER_REVISION)) == 1


async def test_a_pod_that_may_not_be_marked_is_taken_away_unmarked() -> None:
    world = World()
    await world.settle()
    world.give_pods(3)
    world.cluster.edit(DECODE_POOL, "ns", "chat-decode", {"spec": {"replicas": 3}})
    await world.settle()
    world.cluster.refusing["/pods/"] = refusal(422, "ValidatingAdmissionPolicy denied request: Pods stay as they are")
    world.cluster.edit(DECODE_POOL, "ns", "chat-decode", {"spec": {"replicas": 2}})

    assert await world.settle() is None
    (found,) = world.cluster.of(DEPLOYMENT)
    assert found["spec"]["replicas"] == 2
    assert "NotRecorded" in [event["reason"] for event in world.cluster.of(EVENT)]


async def test_an_entry_that_another_version_wrote_is_replaced_by_one_of_our_own() -> None:
    """Patched it would be refused: a server compares the bytes of its data with those that it would write."""
    world = World()
    await world.settle()
    (first,) = world.cluster.of(CONTROLLER_REVISION)
    world.cluster.edit(SERVICE, "ns", "chat", {"spec": {"engine": {"env": {"A": "1"}}}})
    await world.settle()
    world.cluster.immutable = True
    world.cluster.edit(SERVICE, "ns", "chat", {"spec": {"engine": {"env": None}}})

    assert await world.settle() is None
    kept = sorted(world.cluster.of(CONTROLLER_REVISION), key=lambda each: int(each["revision"]))
    assert [each["revision"] for each in kept] == [2, 3]
    assert kept[-1]["data"] == first["data"]
    assert kept[-1]["metadata"]["labels"] == first["metadata"]["labels"]


async def test_an_object_of_somebody_else_keeps_its_name() -> None:
    world = World(THEIRS)

    refused = await world.settle()
    assert isinstance(refused, ForeignError)
    found = world.cluster.get(K8S_SERVICE, "ns", "chat-decode")
    assert found is not None
    assert found["spec"] == THEIRS["spec"]
    assert "ownerReferences" not in found["metadata"]
    assert "a Service chat-decode is there that is not of this service" in world.condition("Degraded")[2]

    world.cluster.remove(K8S_SERVICE, "ns", "chat-decode")
    assert await world.settle() is None
    assert world.cluster.get(K8S_SERVICE, "ns", "chat-decode") is not None


async def test_our_own_object_is_set_back_although_it_lost_its_label() -> None:
    world = World()
    await world.settle()
    (made,) = world.cluster.of(DEPLOYMENT)
    name = made["metadata"]["name"]
    world.cluster.edit(DEPLOYMENT, "ns", name, {"spec": {"replicas": 7}})
    world.store.remove(ObjectId("Deployment", "ns", name), made["metadata"]["uid"])

    assert await world.settle() is None
    (found,) = world.cluster.of(DEPLOYMENT)
    (pool,) = world.cluster.of(DECODE_POOL)
    assert found["spec"]["replicas"] == 1 == pool["spec"]["replicas"]
