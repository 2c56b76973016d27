"""A cluster in memory: carries out what reconciling decides, and lets Deployments and Pods live as a real one would.

Only what reconciling looks at is there: owners by uid, generations, statuses of Pods, replicas.  Merges and applies are
done field by field; who owns a field is not kept, but for `spec.replicas` of pools, which an apply never mentions.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from inferplane_operator.reconcile.core import PureCore
from inferplane_operator.reconcile.reading import annotations, listed, section
from inferplane_operator.reconcile.values import (
    Apply,
    CanaryVerdict,
    Create,
    Delete,
    Event,
    Merge,
    Observed,
    Outcome,
    Reference,
    Write,
)

Object = dict[str, Any]
_START = datetime(2026, 1, 1, tzinfo=UTC)
_OUTSIDE = ("metadata", "status")


@dataclass(slots=True)
class FakeCluster:
    """One namespace with one service; `nodes` take any number of Pods unless `room` says how many in all."""

    service: Object
    core: PureCore = field(default_factory=PureCore)
    objects: dict[tuple[str, str], Object] = field(default_factory=dict[tuple[str, str], Object])
    adapters: list[Object] = field(default_factory=list[Object])
    canary: CanaryVerdict | None = None
    model_revision: str = ""
    extra: dict[str, Any] = field(default_factory=dict[str, Any])
    """More of `Observed`, as given."""
    events: list[Event] = field(default_factory=list[Event])
    changes: int = 0
    """Writes that changed something."""
    room: int | None = None
    clock_s: float = 0.0
    _made: int = 0

    def __post_init__(self) -> None:
        metadata = self.service.setdefault("metadata", {})
        metadata.setdefault("namespace", "default")
        metadata.setdefault("uid", "service-uid")
        metadata.setdefault("generation", 1)
        metadata.setdefault("creationTimestamp", self.now)
        self.objects["InferenceService", metadata["name"]] = self.service

    @property
    def now(self) -> str:
        return (_START + timedelta(seconds=self.clock_s)).isoformat().replace("+00:00", "Z")

    def of(self, kind: str) -> list[Object]:
        return [found for (found_kind, _), found in self.objects.items() if found_kind == kind]

    def pool(self, name: str) -> Object:
        return next(
            found for (_, known), found in self.objects.items() if known == name and "podTemplate" in found["spec"]
        )

    def observed(self) -> Observed:
        pools = [*self.of("PrefillPool"), *self.of("DecodePool")]
        given: dict[str, Any] = {
            "service": self.service,
            "pools": pools,
            "deployments": [*self.of("Deployment"), *self.of("LeaderWorkerSet")],
            "pods": self.of("Pod"),
            "others": [*self.of("Service"), *self.of("PodDisruptionBudget")],
            "adapters": self.adapters,
            "histories": self.of("ControllerRevision"),
            "model_revision": self.model_revision,
            "canary": self.canary,
            "now": self.now,
            **self.extra,
        }
        return Observed(**copy.deepcopy(given))

    def reconcile(self) -> Outcome:
        """Look once and carry it out."""
        outcome = self.core.service(self.observed())
        for write in (*outcome.writes, *outcome.status):
            self.write(write)
        self.events += outcome.events
        self.control()
        return outcome

    def settle(self, rounds: int = 200) -> int:
        """Look again and again, with Pods that start and end at once, until nothing changes; return the rounds."""
        for number in range(rounds):
            before = self.changes
            self.reconcile()
            busy = self.end_pods() + self.start_pods()
            self.clock_s += 1
            if self.changes == before and not busy:
                return number
        return rounds

    def edit(self, spec: Mapping[str, Any]) -> None:
        """Change the service's spec as a user would."""
        self.service["spec"] = {**self.service["spec"], **copy.deepcopy(dict(spec))}
        self.service["metadata"]["generation"] += 1

    def annotate(self, **annotations: str | None) -> None:
        """Set (None: remove) annotations under our prefix."""
        known: dict[str, str] = self.service["metadata"].setdefault("annotations", {})
        for name, value in annotations.items():
            key = f"inferplane.dev/{name}"
            known.pop(key, None)
            if value is not None:
                known[key] = value

    def condition(self, kind: str, of: Object | None = None) -> Object:
        found = (of or self.service).get("status", {}).get("conditions", [])
        return next(each for each in found if each["type"] == kind)

    def pods(self, pool: str = "", revision: str = "") -> list[Object]:
        return [
            pod
            for pod in self.of("Pod")
            if (not pool or pod["metadata"]["labels"]["inferplane.dev/pool"] == pool)
            and (not revision or pod["metadata"]["labels"]["inferplane.dev/revision"] == revision)
        ]

    def start_pods(self) -> int:
        """Let every Pod that has a node become ready; return how many did."""
        waiting = [pod for pod in self.of("Pod") if pod["spec"].get("nodeName") and not _ready(pod) and not _going(pod)]
        for pod in waiting:
            self.start(pod)
        return len(waiting)

    def start(self, pod: Object) -> None:
        pod["status"] = {
            "phase": "Running",
            "podIP": "10.0.0.1",
            "conditions": [
                {"type": kind, "status": "True", "lastTransitionTime": self.now}
                for kind in ("PodScheduled", "Initialized", "Ready")
            ],
            "containerStatuses": [{"name": "engine", "state": {"running": {"startedAt": self.now}}}],
        }

    def crash(self, pod: Object, message: str = "no such weights") -> None:
        """Let the engine fail and be started again."""
        pod["status"] = {
            "phase": "Running",
            "conditions": [
                {"type": "PodScheduled", "status": "True", "lastTransitionTime": self.now},
                {"type": "Ready", "status": "False", "lastTransitionTime": self.now},
            ],
            "containerStatuses": [
                {
                    "name": "engine",
                    "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                    "lastState": {"terminated": {"exitCode": 1, "message": message}},
                }
            ],
        }

    def end_pods(self) -> int:
        """Let every Pod that drains be gone; return how many went."""
        going = [key for key, found in self.objects.items() if key[0] == "Pod" and _going(found)]
        for key in going:
            del self.objects[key]
        self._schedule()
        return len(going)

    def write(self, write: Write) -> None:
        match write:
            case Apply(manifest):
                self._merge(_key(manifest), cast("Object", manifest))
            case Create(manifest):
                if _key(manifest) not in self.objects:
                    self._merge(_key(manifest), cast("Object", manifest))
            case Delete(reference):
                self._delete(reference)
            case Merge(reference, patch, _):
                assert (reference.kind, reference.name) in self.objects, "patched what is not there"  # noqa: S101 - a fake
                self._merge((reference.kind, reference.name), cast("Object", patch))

    def _merge(self, key: tuple[str, str], patch: Object) -> None:
        before = self.objects.get(key)
        after = _merged(before or {}, patch)
        metadata = after.setdefault("metadata", {})
        if before is None:
            self._made += 1
            metadata |= {"uid": f"uid-{self._made}", "creationTimestamp": self.now, "generation": 1}
        elif after == before:
            return
        elif {**after, **dict.fromkeys(_OUTSIDE)} != {**before, **dict.fromkeys(_OUTSIDE)}:
            metadata["generation"] = before["metadata"].get("generation", 0) + 1
        self.changes += 1
        if before is self.service:
            self.service.clear()
            self.service.update(after)
        else:
            self.objects[key] = after

    def _delete(self, reference: Reference) -> None:
        found = self.objects.pop((reference.kind, reference.name), None)
        if found is None:
            return
        self.changes += 1
        uid = found["metadata"]["uid"]
        below = [key for key, each in self.objects.items() if _owner(each) == uid]
        for kind, name in below:
            self._delete(Reference("", kind, "default", name))

    def control(self) -> None:
        """Do what Deployment and ReplicaSet controllers do."""
        for deployment in [*self.of("Deployment"), *self.of("LeaderWorkerSet")]:
            uid, wanted = deployment["metadata"]["uid"], deployment["spec"].get("replicas", 1)
            mine = [pod for pod in self.of("Pod") if _owner(pod) == uid and not _going(pod)]
            for pod in sorted(mine, key=_worth)[: max(0, len(mine) - wanted)]:
                pod["metadata"]["deletionTimestamp"] = self.now
            for _ in range(wanted - len(mine)):
                self._make_pod(deployment)
        self._schedule()

    def _make_pod(self, deployment: Object) -> None:
        self._made += 1
        name, spec = f"{deployment['metadata']['name']}-{self._made}", deployment["spec"]
        template = spec.get("template") or spec["leaderWorkerTemplate"]["leaderTemplate"]
        self.objects["Pod", name] = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": "default",
                "uid": f"uid-{self._made}",
                "labels": dict(template["metadata"]["labels"]),
                "creationTimestamp": self.now,
                "ownerReferences": [{"uid": deployment["metadata"]["uid"], "controller": True}],
            },
            "spec": {},
            "status": {"phase": "Pending"},
        }

    def _schedule(self) -> None:
        placed = sum(bool(pod["spec"].get("nodeName")) for pod in self.of("Pod"))
        for pod in self.of("Pod"):
            if pod["spec"].get("nodeName") or _going(pod):
                continue
            if self.room is not None and placed >= self.room:
                pod["status"] = _without_room(pod, self.now)
                continue
            placed += 1
            pod["spec"]["nodeName"] = "node-1"
            scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": self.now}
            pod["status"] = {"phase": "Pending", "conditions": [scheduled]}


def _without_room(pod: Object, now: str) -> Object:
    if pod["status"].get("conditions"):
        return cast("Object", pod["status"])
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/1 nodes are available: 1 Insufficient nvidia.com/gpu.",
        "lastTransitionTime": now,
    }
    return {"phase": "Pending", "conditions": [condition]}


def _worth(pod: Object) -> tuple[bool, bool, int]:
    """Order Pods as a ReplicaSet takes them away."""
    cost = annotations(pod).get("controller.kubernetes.io/pod-deletion-cost", "0")
    return (bool(pod["spec"].get("nodeName")), _ready(pod), int(cost))


def _ready(pod: Object) -> bool:
    conditions = pod.get("status", {}).get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _going(found: Object) -> bool:
    return bool(found["metadata"].get("deletionTimestamp"))


def _owner(found: Object) -> str:
    owners = listed(found, "metadata", "ownerReferences")
    return str(owners[0]["uid"]) if owners else ""


def _key(manifest: Mapping[str, Any]) -> tuple[str, str]:
    return (str(manifest["kind"]), str(manifest["metadata"]["name"]))


def _merged(target: Mapping[str, Any], patch: Mapping[str, Any]) -> Object:
    result = copy.deepcopy(dict(target))
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, Mapping) and key not in ("podTemplate", "template", "data"):
            result[key] = _merged(section(result, key), cast("Object", value))
        else:
            result[key] = copy.deepcopy(cast("Any", value))
    return result
