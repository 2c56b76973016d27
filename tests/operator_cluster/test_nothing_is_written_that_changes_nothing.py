"""The writer against an API server in memory."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from inferplane_operator.cluster.applied import APPLIED, Memory
from inferplane_operator.cluster.errors import InvalidError, TerminatingError
from inferplane_operator.cluster.event_recording import EventRecorder
from inferplane_operator.cluster.intake import Intake
from inferplane_operator.cluster.kinds import CONTROLLER_REVISION, DECODE_POOL, DEPLOYMENT, EVENT, POD, SERVICE
from inferplane_operator.cluster.metrics import OperatorMetrics
from inferplane_operator.cluster.objects import Objects
from inferplane_operator.cluster.store import Store
from inferplane_operator.cluster.stored import ObjectId
from inferplane_operator.cluster.testing import FakeCluster, RecordedQueue
from inferplane_operator.cluster.transport import Answer
from inferplane_operator.cluster.writing import Writer
from inferplane_operator.reconcile.values import (
    Apply,
    Create,
    Delete,
    Event,
    EventType,
    Merge,
    Outcome,
    Reference,
    Write,
)
from inferplane_runtime.kube.leadership import NotLeadingError

pytestmark = pytest.mark.anyio


@dataclass
class World:
    """A cluster, and one operator's shell around it whose watches are prompt."""

    cluster: FakeCluster = field(default_factory=FakeCluster)
    leads: bool = True
    watching: bool = True

    def __post_init__(self) -> None:
        self.cluster.listeners.append(self._hear)
        self.restart()

    def restart(self) -> None:
        """Begin again with what the cluster has, as a new process does."""
        objects, metrics = Objects(self.cluster), OperatorMetrics()
        self.store, self.memory, self.queue = Store(), Memory(), RecordedQueue()
        self.intake = Intake(self.store, self.queue, self.memory, now=lambda: 0.0)
        recorder = EventRecorder(objects, allowed=self.check, wall=lambda: 0.0, identity="me", metrics=metrics)
        self.writer = Writer(
            objects,
            self.store,
            recorder=recorder,
            memory=self.memory,
            take_in=self.intake.written,
            allowed=self.check,
            metrics=metrics,
        )
        for manifest in self.cluster.objects.values():
            self.intake.seen(manifest, listed=True)

    def check(self) -> None:
        if not self.leads:
            raise NotLeadingError("no")

    async def write(self, *writes: Write, **more: Any) -> int:
        """Carry out, and count the requests that write."""
        before = len(self.cluster.writes())
        await self.writer.carry_out(Outcome(writes=writes, **more))
        return len(self.cluster.writes()) - before

    def _hear(self, what: str, manifest: dict[str, Any]) -> None:
        if not self.watching:
            return
        if what == "DELETED":
            self.intake.gone(manifest)
        else:
            self.intake.seen(manifest, listed=False)


def deployment(*, image: str = "a:1", replicas: int = 2, **labels: str) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"namespace": "ns", "name": "d", "labels": {"inferplane.dev/service": "s", **labels}},
        "spec": {
            "replicas": replicas,
            "template": {"spec": {"containers": [{"name": "engine", "image": image, "env": [{"name": "A"}]}]}},
        },
    }


def pool(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": DECODE_POOL.api_version,
        "kind": "DecodePool",
        "metadata": {"namespace": "ns", "name": "p"},
        "spec": {"service": "s", "revision": "r", **spec},
    }


def live(world: World, kind: Any = DEPLOYMENT, name: str = "d") -> dict[str, Any]:
    found = world.cluster.get(kind, "ns", name)
    assert found is not None
    return found


async def test_the_same_apply_is_sent_once() -> None:
    world = World()

    assert await world.write(Apply(deployment())) == 1
    assert await world.write(Apply(deployment())) == 0
    assert APPLIED in live(world)["metadata"]["annotations"]


async def test_the_next_operator_knows_what_the_last_one_applied() -> None:
    world = World()
    await world.write(Apply(deployment()))
    world.restart()

    assert await world.write(Apply(deployment())) == 0


async def test_what_is_wanted_anew_is_sent_and_what_is_dropped_is_removed() -> None:
    world = World()
    await world.write(Apply(deployment(team="a")))

    assert await world.write(Apply(deployment(image="a:2"))) == 1
    assert "team" not in live(world)["metadata"]["labels"]
    assert live(world)["spec"]["template"]["spec"]["containers"][0]["image"] == "a:2"


async def test_defaults_and_fields_of_others_do_not_count() -> None:
    world = World()
    await world.write(Apply(deployment()))
    world.cluster.edit(
        DEPLOYMENT,
        "ns",
        "d",
        {"spec": {"progressDeadlineSeconds": 600}, "metadata": {"annotations": {"x.io/y": "z"}}},
        manager="kube-controller-manager",
    )

    assert await world.write(Apply(deployment())) == 0


async def test_a_zero_that_the_server_leaves_out_is_there() -> None:
    world = World()
    manifest = deployment()
    manifest["spec"]["paused"] = False
    await world.write(Apply(manifest))
    del world.cluster.objects["deployments", "ns", "d"]["spec"]["paused"]
    world.restart()
    assert await world.write(Apply(manifest)) == 0

    world.cluster.edit(DEPLOYMENT, "ns", "d", {"spec": {"paused": True}})
    assert await world.write(Apply(manifest)) == 2  # the apply and the Event


async def test_an_edit_by_hand_is_set_back_and_its_author_named() -> None:
    world = World()
    await world.write(Apply(deployment()))
    world.cluster.edit(DEPLOYMENT, "ns", "d", {"spec": {"replicas": 7}}, manager="kubectl-edit")

    assert await world.write(Apply(deployment())) == 2  # the apply and the Event
    assert live(world)["spec"]["replicas"] == 2
    (event,) = world.cluster.of(EVENT)
    assert event["reason"] == "EditedByHand"
    assert "spec.replicas" in event["note"]
    assert "kubectl-edit" in event["note"]
    assert await world.write(Apply(deployment())) == 0


async def test_an_edit_while_no_operator_ran_is_set_back_too() -> None:
    world = World()
    await world.write(Apply(deployment()))
    world.watching = False
    world.cluster.edit(DEPLOYMENT, "ns", "d", {"metadata": {"labels": {"inferplane.dev/service": "x"}}})
    world.restart()

    assert await world.write(Apply(deployment())) == 2
    assert live(world)["metadata"]["labels"]["inferplane.dev/service"] == "s"


async def test_a_list_that_others_add_to_is_not_fought_over() -> None:
    """One apply, then peace until the object moves again."""
    world = World()
    manifest = deployment()
    manifest["spec"]["template"]["spec"]["tolerations"] = [{"key": "a"}]

    def inject(admitted: dict[str, Any]) -> None:
        if admitted["kind"] == "Deployment":
            admitted["spec"]["template"]["spec"]["tolerations"] = [{"key": "a"}, {"key": "injected"}]

    world.cluster.admission = inject
    await world.write(Apply(manifest))
    assert await world.write(Apply(manifest)) == 0

    world.cluster.edit(DEPLOYMENT, "ns", "d", {"metadata": {"labels": {"moved": "1"}}})
    assert await world.write(Apply(manifest)) >= 1
    assert await world.write(Apply(manifest)) == 0


async def test_quantities_in_another_spelling_are_equal_and_variables_are_not() -> None:
    world = World()
    manifest = deployment()
    container = manifest["spec"]["template"]["spec"]["containers"][0]
    container["resources"] = {"requests": {"cpu": "1000m", "memory": "1024Mi"}, "limits": {"nvidia.com/gpu": 1}}
    container["env"] = [{"name": "A", "value": "1000m"}]
    await world.write(Apply(manifest))
    served = world.cluster.objects["deployments", "ns", "d"]["spec"]["template"]["spec"]["containers"][0]
    served["resources"] = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"nvidia.com/gpu": "1"}}
    world.restart()
    assert await world.write(Apply(manifest)) == 0

    served["env"] = [{"name": "A", "value": "1"}]
    world.restart()
    assert await world.write(Apply(manifest)) >= 1


async def test_replicas_of_a_new_pool_belong_to_nobody_afterwards() -> None:
    world = World()
    await world.write(Create(pool(replicas=3)))
    world.cluster.edit(DECODE_POOL, "ns", "p", {"spec": {"replicas": 5}}, manager="kubectl")
    await world.write(Apply(pool(revision="r2")))

    assert live(world, DECODE_POOL, "p")["spec"] == {"service": "s", "revision": "r2", "replicas": 5}
    stored = next(world.store.of_kind("DecodePool"))
    assert stored.owners.scaled_by == "kubectl"


async def test_creating_what_is_there_already_is_nothing() -> None:
    world = World()
    revision = {"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": {"namespace": "ns", "name": "r"}}
    world.watching = False
    await world.write(Create(revision))

    assert await world.write(Create(revision)) == 0
    world.restart()
    uid = live(world, CONTROLLER_REVISION, "r")["metadata"]["uid"]
    world.store.remove(ObjectId("ControllerRevision", "ns", "r"), uid)
    assert await world.write(Create(revision)) == 1  # refused by the server, and no error


async def test_a_status_is_sent_only_when_it_differs() -> None:
    world = World()
    world.cluster.add(
        {"apiVersion": SERVICE.api_version, "kind": SERVICE.kind, "metadata": {"namespace": "ns", "name": "s"}}
    )
    reference = Reference(SERVICE.api_version, SERVICE.kind, "ns", "s")

    def status(**fields: Any) -> Merge:
        return Merge(reference, {"status": fields}, "status")

    assert await world.write(status=[status(url="a", conditions=[])]) == 1
    assert await world.write(status=[status(url="a", conditions=[])]) == 0
    assert await world.write(status=[status(url="b", conditions=None)]) == 1
    assert live(world, SERVICE, "s")["status"] == {"url": "b"}


async def test_a_merge_of_what_is_there_is_dropped() -> None:
    world = World()
    world.cluster.add({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "ns", "name": "x"}})
    cost = {"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-1"}}}
    merge = Merge(Reference("v1", "Pod", "ns", "x"), cost)

    assert [await world.write(merge), await world.write(merge)] == [1, 0]


async def test_only_the_object_that_was_meant_is_deleted() -> None:
    world = World()
    world.cluster.add({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "ns", "name": "x"}})

    assert await world.write(Delete(Reference("v1", "Pod", "ns", "x", uid="another"))) == 0
    assert await world.write(Delete(Reference("v1", "Pod", "ns", "x"))) == 1
    assert await world.write(Delete(Reference("v1", "Pod", "ns", "x"))) == 0
    assert world.cluster.of(POD) == []


async def test_nothing_is_written_without_the_lease() -> None:
    world = World(leads=False)
    event = Event(Reference("v1", "Pod", "ns", "x"), EventType.NORMAL, "R", "m")
    for write in (Apply(deployment()), Create(pool(replicas=1))):
        with pytest.raises(NotLeadingError):
            await world.write(write)
    with pytest.raises(NotLeadingError):
        await world.write(events=[event])

    assert world.cluster.writes() == []


async def test_a_failed_write_ends_the_round_but_status_and_events_are_told() -> None:
    world = World()
    world.cluster.add(
        {"apiVersion": SERVICE.api_version, "kind": SERVICE.kind, "metadata": {"namespace": "ns", "name": "s"}}
    )
    reference = Reference(SERVICE.api_version, SERVICE.kind, "ns", "s")
    world.cluster.failures = [Answer(422, b'{"message": "spec.x: no"}')]
    with pytest.raises(InvalidError, match=r"spec\.x"):
        await world.write(
            Apply(deployment()),
            Apply(pool()),
            status=[Merge(reference, {"status": {"url": "u"}}, "status")],
            events=[Event(reference, EventType.WARNING, "Broken", "spec.x")],
        )

    assert world.cluster.of(DEPLOYMENT) == []
    assert world.cluster.of(DECODE_POOL) == []
    assert live(world, SERVICE, "s")["status"] == {"url": "u"}
    assert len(world.cluster.of(EVENT)) == 1


async def test_a_namespace_that_is_being_deleted_is_told_apart() -> None:
    world = World()
    world.cluster.terminating.add("ns")
    with pytest.raises(TerminatingError):
        await world.write(Apply(deployment()))

    event = Event(Reference("v1", "Pod", "ns", "x"), EventType.NORMAL, "R", "m")
    assert await world.write(events=[event]) == 1  # tried, refused, no error


async def test_events_are_said_once_even_by_the_next_operator() -> None:
    world = World()
    about = Reference("v1", "Pod", "ns", "x", "uid")
    first = Event(about, EventType.NORMAL, "Started", "it started")
    await world.write(events=[first, first])
    assert await world.write(events=[first]) == 0
    world.restart()
    await world.write(events=[first, Event(about, EventType.NORMAL, "Started", "again")])

    assert len(world.cluster.of(EVENT)) == 2


async def test_the_store_sees_a_write_before_its_watch_event() -> None:
    world = World(watching=False)
    await world.write(Create(pool(replicas=3)))

    assert await world.write(Create(pool(replicas=3)), Apply(pool(revision="r2"))) == 1
    assert await world.write(Create(pool(replicas=3)), Apply(pool(revision="r2"))) == 0
    assert live(world, DECODE_POOL, "p")["spec"]["replicas"] == 3
