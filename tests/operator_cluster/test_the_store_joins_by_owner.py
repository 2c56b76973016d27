"""What is observed of a service, and which services an event is about."""

from typing import Any

import pytest

from inferplane_operator.cluster.applied import Memory
from inferplane_operator.cluster.audit import Audit
from inferplane_operator.cluster.intake import Intake
from inferplane_operator.cluster.kinds import DECODE_POOL, POD, SERVICE
from inferplane_operator.cluster.objects import Objects
from inferplane_operator.cluster.picture import observe, observe_kv_store, observe_route
from inferplane_operator.cluster.store import Change, Store
from inferplane_operator.cluster.stored import ObjectId, store_form
from inferplane_operator.cluster.testing import FakeCluster, RecordedQueue
from inferplane_operator.cluster.work_keys import ADAPTERS, WorkKey
from inferplane_operator.reconcile.values import Key, Observed, ServedNameClaim

GROUP = SERVICE.api_version
API = {
    "ControllerRevision": "apps/v1",
    "Deployment": "apps/v1",
    "LeaderWorkerSet": "leaderworkerset.x-k8s.io/v1",
    "Pod": "v1",
    "PodDisruptionBudget": "policy/v1",
    "ReplicaSet": "apps/v1",
    "Service": "v1",
    "StatefulSet": "apps/v1",
}


def thing(kind: str, name: str, *, owner: str = "", version: int = 1, **more: Any) -> dict[str, Any]:
    """Build an object whose uid is `uid-NAME`; `owner` is the uid of its controller."""
    metadata: dict[str, Any] = {"namespace": "ns", "name": name, "uid": f"uid-{name}", "resourceVersion": str(version)}
    if owner:
        metadata["ownerReferences"] = [{"controller": False, "uid": "other"}, {"controller": True, "uid": owner}]
    metadata |= more.pop("metadata", {})
    return {"apiVersion": API.get(kind, GROUP), "kind": kind, "metadata": metadata, **more}


def service(name: str, *, names: tuple[str, ...] = (), store: str = "", created: str = "") -> dict[str, Any]:
    spec: dict[str, Any] = {"model": {"name": f"m-{name}", "servedNames": list(names)}}
    spec |= {"kvStore": {"name": store}} if store else {}
    return thing("InferenceService", name, spec=spec, metadata={"creationTimestamp": created, "generation": 1})


class World:
    def __init__(self) -> None:
        self.store, self.queue = Store(), RecordedQueue()
        self.intake = Intake(self.store, self.queue, Memory(), now=lambda: 0.0)

    def see(self, *manifests: dict[str, Any]) -> set[WorkKey]:
        self.queue.keys.clear()
        for manifest in manifests:
            self.intake.seen(manifest, listed=False)
        return set(self.queue.keys)

    def lose(self, manifest: dict[str, Any]) -> set[WorkKey]:
        self.queue.keys.clear()
        self.intake.gone(manifest)
        return set(self.queue.keys)

    def observed(self, name: str = "s") -> Observed:
        stored = self.store.get(ObjectId("InferenceService", "ns", name))
        assert stored is not None
        return observe(self.store, stored, now="2026-01-01T00:00:00Z")


def names(manifests: Any) -> list[str]:
    return [manifest["metadata"]["name"] for manifest in manifests]


def chain() -> list[dict[str, Any]]:
    return [
        service("s"),
        thing("DecodePool", "p", owner="uid-s", spec={"service": "s"}),
        thing("Deployment", "d", owner="uid-p"),
        thing("ReplicaSet", "r", owner="uid-d"),
        thing("Pod", "x", owner="uid-r"),
    ]


KEY = WorkKey("InferenceService", "ns", "s")
ADAPTERS_KEY = WorkKey(ADAPTERS, "ns", "s")


def test_a_service_is_observed_with_everything_below_it() -> None:
    world = World()
    world.see(
        *chain(),
        thing("Service", "p", owner="uid-p"),
        thing("PodDisruptionBudget", "p", owner="uid-p"),
        thing("ControllerRevision", "s-r1", owner="uid-s"),
        thing("LoRAAdapter", "a", spec={"service": "s"}),
    )
    observed = world.observed()

    assert names(observed.pools) == ["p"]
    assert names(observed.deployments) == ["d"]
    assert names(observed.pods) == ["x"]
    assert [other["kind"] for other in observed.others] == ["PodDisruptionBudget", "Service"]
    assert names(observed.histories) == ["s-r1"]
    assert names(observed.adapters) == ["a"]


def test_pods_of_a_leader_worker_set_are_found_through_their_stateful_sets() -> None:
    world = World()
    world.see(
        *chain()[:2],
        thing("LeaderWorkerSet", "l", owner="uid-p"),
        thing("StatefulSet", "l-set", owner="uid-l"),
        thing("Pod", "l-0", owner="uid-l-set"),
        thing("StatefulSet", "l-0-set", owner="uid-l-0"),
    )

    assert world.see(thing("Pod", "l-0-1", owner="uid-l-0-set")) == {KEY, ADAPTERS_KEY}
    assert names(world.observed().deployments) == ["l"]
    assert sorted(names(world.observed().pods)) == ["l-0", "l-0-1"]


@pytest.mark.parametrize("new_owner", ["", "uid-of-somebody"])
def test_who_had_an_object_hears_that_it_was_taken_away(new_owner: str) -> None:
    """By hand, say; without its owner it would be left behind when the service goes."""
    world = World()
    world.see(*chain())

    assert world.see(thing("Deployment", "d", owner=new_owner, version=2)) == {KEY}


@pytest.mark.parametrize("missing", range(1, 4), ids=["pool", "Deployment", "ReplicaSet"])
def test_a_pod_joins_only_by_a_whole_chain_whatever_its_labels(missing: int) -> None:
    world = World()
    objects = chain()
    forged = thing("Pod", "forged", metadata={"labels": {"inferplane.dev/service": "s", "inferplane.dev/pool": "p"}})
    world.see(*(found for index, found in enumerate(objects) if index != missing), forged)
    assert names(world.observed().pods) == []

    assert KEY in world.see(objects[missing])  # late, but it comes
    assert names(world.observed().pods) == ["x"]


def test_a_successor_of_the_same_name_inherits_nothing() -> None:
    world = World()
    world.see(*chain())
    world.lose(chain()[2])
    world.see(thing("Deployment", "d", owner="uid-p", metadata={"uid": "uid-new"}))

    assert names(world.observed().deployments) == ["d"]
    assert names(world.observed().pods) == []


def test_every_object_of_the_chain_concerns_its_service() -> None:
    world = World()
    world.see(*chain())

    for manifest in chain():
        assert KEY in world.see({**manifest, "metadata": {**manifest["metadata"], "resourceVersion": "2"}})
    assert world.lose(chain()[4]) == {KEY, ADAPTERS_KEY}


def test_old_news_is_no_news() -> None:
    store = Store()
    store.put(thing("Pod", "x", version=9))

    assert store.put(thing("Pod", "x", version=8)).change is Change.STALE
    assert store.put(thing("Pod", "x", version=9)).change is Change.SAME
    assert store.put(thing("Pod", "x", version=10)).change is Change.STORED
    assert store.remove(ObjectId("Pod", "ns", "x"), "another uid") is None


def test_managed_fields_are_reduced_to_what_is_asked_of_them() -> None:
    fields: list[dict[str, Any]] = [
        {"manager": "inferplane-operator", "operation": "Apply", "time": "1",
         "fieldsV1": {"f:spec": {"f:replicas": {}}}},
        {"manager": "kubectl", "operation": "Update", "time": "2", "subresource": "scale",
         "fieldsV1": {"f:spec": {"f:replicas": {}}}},
        {"manager": "kube-controller-manager", "operation": "Update", "time": "3", "subresource": "status",
         "fieldsV1": {"f:status": {}}},
    ]  # fmt: skip
    stored = store_form(thing("DecodePool", "p", metadata={"managedFields": fields}, spec={"x": "y" * 5000}))

    assert "managedFields" not in stored.manifest()["metadata"]
    assert stored.owners.scaled_by == "kubectl"
    assert stored.owners.editor == "kubectl"
    assert stored.packed
    assert len(stored.data) < 300


def test_the_older_service_holds_a_name_and_the_younger_one_hears_when_it_goes() -> None:
    world = World()
    old = service("old", names=("chat",), created="2026-01-01T00:00:00Z")
    young = service("young", names=("chat", "mine"), created="2026-01-02T00:00:00Z")
    world.see(young)

    assert WorkKey("InferenceService", "ns", "young") in world.see(old)
    assert world.observed("young").lost_names == (ServedNameClaim("chat", Key("ns", "old")),)
    assert world.observed("old").lost_names == ()
    assert WorkKey("InferenceService", "ns", "young") in world.lose(old)
    assert world.observed("young").lost_names == ()


def test_an_adapters_name_counts_from_when_both_exist() -> None:
    world = World()
    world.see(
        service("old", created="2026-01-01T00:00:00Z"),
        service("young", names=("tuned",), created="2026-01-02T00:00:00Z"),
    )
    late = thing(
        "LoRAAdapter", "tuned", spec={"service": "old"}, metadata={"creationTimestamp": "2026-01-03T00:00:00Z"}
    )

    assert {WorkKey("InferenceService", "ns", "old"), WorkKey("InferenceService", "ns", "young")} <= world.see(late)
    assert world.observed("old").lost_names == (ServedNameClaim("tuned", Key("ns", "young")),)
    assert world.observed("young").lost_names == ()


def test_a_kv_store_hears_of_those_who_begin_and_cease_to_use_it() -> None:
    world = World()
    key = WorkKey("KVStore", "ns", "k")

    assert key in world.see(thing("KVStore", "k"), service("s", store="k"))
    used = service("s", store="k")
    moved = {**service("s", store="j"), "metadata": {**used["metadata"], "resourceVersion": "2", "generation": 2}}
    assert {key, WorkKey("KVStore", "ns", "j")} <= world.see(moved)
    stored = world.store.get(ObjectId("KVStore", "ns", "k"))
    assert stored is not None
    assert names(observe_kv_store(world.store, stored, now="").services) == ["s"]


def test_routes_hear_when_a_name_appears() -> None:
    world = World()
    world.see(thing("ModelRoute", "r"), thing("ModelRoute", "other"))

    assert WorkKey("ModelRoute", "ns", "r") in world.see(service("s", names=("chat",), created="2026-01-01T00:00:00Z"))
    stored = world.store.get(ObjectId("ModelRoute", "ns", "r"))
    assert stored is not None
    observed = observe_route(world.store, stored, now="")
    assert observed.holders == {"chat": Key("ns", "s")}
    assert names(observed.others) == ["other"]


def test_a_users_edit_is_urgent_and_a_status_is_not() -> None:
    world = World()
    world.see(service("s"))
    world.queue.urgent.clear()
    again = service("s")
    world.see({**again, "metadata": {**again["metadata"], "resourceVersion": "2"}})
    assert world.queue.urgent == []

    world.see({**again, "metadata": {**again["metadata"], "resourceVersion": "3", "generation": 2}})
    assert world.queue.urgent == [KEY]


@pytest.mark.anyio
async def test_an_audit_finds_what_a_watch_did_not_say() -> None:
    cluster, world = FakeCluster(), World()
    kept = cluster.add({"apiVersion": GROUP, "kind": SERVICE.kind, "metadata": {"namespace": "ns", "name": "kept"}})
    gone = cluster.add({"apiVersion": GROUP, "kind": SERVICE.kind, "metadata": {"namespace": "ns", "name": "gone"}})
    world.see(kept, gone)
    cluster.remove(SERVICE, "ns", "gone")
    cluster.add({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "ns", "name": "unheard"}})
    audit = Audit(Objects(cluster), world.store, (), on_gone=world.intake.dropped)
    world.queue.keys.clear()
    findings = await audit.all((SERVICE, POD, DECODE_POOL))

    assert [len(finding.missing) for finding in findings] == [0, 1, 0]
    assert world.queue.keys == [WorkKey("InferenceService", "ns", "gone"), WorkKey(ADAPTERS, "ns", "gone")]
    assert world.store.get(ObjectId("InferenceService", "ns", "gone")) is None
    assert audit.stuck(findings) == []
    assert audit.stuck(await audit.all((SERVICE, POD))) == ["Pod"]
