"""Fakes of the cluster shell's seams: an API server in memory, a core, a queue.

`FakeCluster` keeps what the shell relies on: versions that rise, generations that rise with the spec alone, conflicts,
server-side apply with field managers that own what they applied (a field that its only owner drops is removed), status
and scale subresources, owner references that take their objects along, namespaces that are being deleted.
"""

import asyncio
import copy
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import orjson

from inferplane_operator.cluster.applied import merged
from inferplane_operator.cluster.errors import UnreachableError
from inferplane_operator.cluster.kinds import BUILT_IN, EVENT, LEASE, OURS, SECRET, SERVICE, Kind
from inferplane_operator.cluster.raw import text
from inferplane_operator.cluster.stored import controller_of
from inferplane_operator.cluster.transport import APPLY_PATCH, METADATA_ONLY, Answer, Call
from inferplane_operator.cluster.work_keys import WorkKey
from inferplane_operator.reconcile.values import (
    Apply,
    Create,
    Manifest,
    Merge,
    Observed,
    ObservedKVStore,
    ObservedRoute,
    Outcome,
    Reference,
    Write,
)

_WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_CREATED = 201
_IDENTITY = frozenset({"apiVersion", "kind", "name", "namespace", "uid"})
Listener = Callable[[str, dict[str, Any]], None]


@dataclass(slots=True)
class FakeCluster:
    """A `Transport` to an API server that is a dictionary."""

    kinds: tuple[Kind, ...] = (*OURS, *BUILT_IN, SECRET, EVENT, LEASE)
    objects: dict[tuple[str, str, str], dict[str, Any]] = field(
        default_factory=dict[tuple[str, str, str], dict[str, Any]]
    )
    calls: list[Call] = field(default_factory=list[Call])
    terminating: set[str] = field(default_factory=set[str])
    """Namespaces that are being deleted."""
    failures: list[Answer | None] = field(default_factory=list[Answer | None])
    """What the next requests are answered with instead; None: not at all."""
    listeners: list[Listener] = field(default_factory=list[Listener])
    admission: Callable[[dict[str, Any]], None] | None = None
    """Changes whatever is written, as a mutating webhook does."""
    version: int = 100
    _uids: int = 0
    _applied: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict[str, dict[str, dict[str, Any]]])
    """uid -> field manager -> what it applied last."""

    async def send(self, call: Call) -> Answer:
        await asyncio.sleep(0)
        if self.failures:
            self.calls.append(call)
            failure = self.failures.pop(0)
            if failure is None:
                raise UnreachableError("no answer")
            return failure
        return self.answer(call)

    # What tests do to it.

    def add(self, manifest: Manifest) -> dict[str, Any]:
        """Put an object there, as a user would."""
        kind = next(kind for kind in self.kinds if (kind.api_version, kind.kind) == _type(manifest))
        answer = self._create(kind, copy.deepcopy(dict(manifest)), "user")
        assert answer.status == _CREATED, answer.body  # noqa: S101 - a test's mistake
        return cast("dict[str, Any]", orjson.loads(answer.body))

    def edit(self, kind: Kind, namespace: str, name: str, patch: Manifest, *, manager: str = "kubectl-edit") -> None:
        self._merge(kind, self.objects[kind.plural, namespace, name], patch, "", manager)

    def remove(self, kind: Kind, namespace: str, name: str) -> None:
        self._delete(self.objects[kind.plural, namespace, name])

    def get(self, kind: Kind, namespace: str, name: str) -> dict[str, Any] | None:
        return self.objects.get((kind.plural, namespace, name))

    def of(self, kind: Kind) -> list[dict[str, Any]]:
        return [found for (plural, _, _), found in sorted(self.objects.items()) if plural == kind.plural]

    def writes(self) -> list[Call]:
        return [call for call in self.calls if call.method in _WRITES]

    def collection(self, path: str) -> tuple[Kind, str]:
        """Return the kind and namespace that a path lists."""
        kind, namespace, _, _ = self._parse(path)
        if kind is None:
            raise ValueError(f"{path} lists nothing")
        return kind, namespace

    # What it answers.

    def answer(self, call: Call) -> Answer:
        self.calls.append(call)
        if not any(call.path == kind.root or call.path.startswith(f"{kind.root}/") for kind in self.kinds):
            return _refusal(404, "NotFound")
        kind, namespace, name, subresource = self._parse(call.path)
        if kind is None:
            return _json(200, {"resources": [{"name": one.plural} for one in self.kinds if one.root == call.path]})
        if call.method == "POST":
            return self._create(kind, orjson.loads(call.body), dict(call.query).get("fieldManager", ""))
        if not name:
            return self._list(kind, namespace, call)
        return self._on_object(call, kind, (namespace, name), subresource)

    def _on_object(self, call: Call, kind: Kind, where: tuple[str, str], subresource: str) -> Answer:
        live = self.objects.get((kind.plural, *where))
        manager = dict(call.query).get("fieldManager", "")
        if call.content_type == APPLY_PATCH:
            forced = dict(call.query).get("force") == "true"
            return self._apply(kind, live, orjson.loads(call.body), manager, forced=forced)
        if live is None:
            return _refusal(404, "NotFound")
        if call.method == "GET":
            return _json(200, live)
        body = orjson.loads(call.body)
        if call.method == "PATCH":
            return self._merge(kind, live, body, subresource, manager)
        return self._replace(kind, live, body) if call.method == "PUT" else self._deletion(live, body)

    def _replace(self, kind: Kind, live: dict[str, Any], body: dict[str, Any]) -> Answer:
        if body["metadata"].get("resourceVersion") != live["metadata"]["resourceVersion"]:
            return _refusal(409, "Conflict")
        return _json(200, self._store(kind, body, live))

    def _deletion(self, live: dict[str, Any], options: dict[str, Any]) -> Answer:
        wanted = text(options, "preconditions", "uid")
        if wanted and wanted != live["metadata"]["uid"]:
            return _refusal(409, "Conflict")
        self._delete(live)
        return _json(200, {"kind": "Status", "status": "Success"})

    def _list(self, kind: Kind, namespace: str, call: Call) -> Answer:
        name = dict(call.query).get("fieldSelector", "").removeprefix("metadata.name=")
        found = [one for one in self.of(kind) if not namespace or one["metadata"]["namespace"] == namespace]
        found = [one for one in found if not name or one["metadata"]["name"] == name]
        items = [{"metadata": one["metadata"]} for one in found] if call.accept == METADATA_ONLY else found
        answer = {"kind": f"{kind.kind}List", "apiVersion": kind.api_version, "items": items}
        return _json(200, {**answer, "metadata": {"resourceVersion": str(self.version)}})

    def _create(self, kind: Kind, manifest: dict[str, Any], manager: str, *, operation: str = "Update") -> Answer:
        metadata = manifest["metadata"]
        key = (kind.plural, str(metadata["namespace"]), str(metadata["name"]))
        if key[1] in self.terminating:
            cause = {"causes": [{"reason": "NamespaceTerminating"}]}
            return _json(403, {"reason": "Forbidden", "message": "being terminated", "details": cause})
        if key in self.objects:
            return _refusal(409, "AlreadyExists")
        self._uids += 1
        self._own(f"uid-{self._uids}", manager, copy.deepcopy(manifest), operation=operation)
        metadata["uid"] = f"uid-{self._uids}"
        metadata.setdefault("creationTimestamp", f"2026-01-01T00:00:{self._uids % 60:02d}Z")
        return _json(201, self._store(kind, manifest, None))

    def _apply(
        self, kind: Kind, live: dict[str, Any] | None, manifest: dict[str, Any], manager: str, *, forced: bool
    ) -> Answer:
        if live is None:
            return self._create(kind, copy.deepcopy(manifest), manager, operation="Apply")
        uid = str(live["metadata"]["uid"])
        owned, own = self._applied.get(uid, {}), f"{manager}/Apply"
        before, others = owned.get(own, {}), [fields for key, fields in owned.items() if key != own]
        if not forced and any(_contradict(manifest, live, fields) for fields in others):
            return _refusal(409, "Conflict")
        new = merged(_without(live, before, manifest, others), _nothing_dropped(manifest))
        self._own(uid, manager, manifest, operation="Apply")
        return _json(200, self._store(kind, new, live))

    def _merge(self, kind: Kind, live: dict[str, Any], patch: Manifest, subresource: str, manager: str) -> Answer:
        new = copy.deepcopy(live)
        if subresource == "status":
            new["status"] = merged(new.get("status"), patch.get("status"))
        else:
            new = merged(new, patch)
        if subresource != "status":
            self._own(str(live["metadata"]["uid"]), manager, patch, operation="Update")
        return _json(200, self._store(kind, new, live))

    def _store(self, kind: Kind, new: dict[str, Any], old: dict[str, Any] | None) -> dict[str, Any]:
        new = {"apiVersion": kind.api_version, "kind": kind.kind, **new}
        metadata = new["metadata"] = dict(new["metadata"])
        if self.admission is not None:
            new = copy.deepcopy(new)
            self.admission(new)
            metadata = new["metadata"]
        generation = 1 if old is None else int(old["metadata"]["generation"]) + (new.get("spec") != old.get("spec"))
        metadata["generation"] = generation
        metadata["managedFields"] = self._managed(str(metadata["uid"]))
        if old is not None and _bare(new) == _bare(old):
            return old
        self.version += 1
        metadata["resourceVersion"] = str(self.version)
        self.objects[kind.plural, str(metadata["namespace"]), str(metadata["name"])] = new
        self._tell("ADDED" if old is None else "MODIFIED", new)
        return new

    def _delete(self, live: dict[str, Any]) -> None:
        metadata = live["metadata"]
        key = next(key for key, found in self.objects.items() if found["metadata"]["uid"] == metadata["uid"])
        del self.objects[key]
        self.version += 1
        self._tell("DELETED", {**live, "metadata": {**metadata, "resourceVersion": str(self.version)}})
        for child in [one for one in self.objects.values() if controller_of(one["metadata"]) == metadata["uid"]]:
            self._delete(child)

    def _tell(self, what: str, manifest: dict[str, Any]) -> None:
        for listener in list(self.listeners):
            listener(what, copy.deepcopy(manifest))

    def _own(self, uid: str, manager: str, manifest: Manifest, *, operation: str) -> None:
        if manager:
            owned = self._applied.setdefault(uid, {})
            key = f"{manager}/{operation}"
            owned[key] = (
                merged(owned.get(key, {}), _nothing_dropped(manifest)) if operation == "Update" else dict(manifest)
            )

    def _managed(self, uid: str) -> list[dict[str, Any]]:
        entries: list[dict[str, Any]] = []
        for order, (key, owned) in enumerate(self._applied.get(uid, {}).items()):
            manager, operation = key.split("/")
            fields = {"fieldsV1": _fields(owned), "time": f"2026-01-01T00:00:{order:02d}Z"}
            entries.append({"manager": manager, "operation": operation, **fields})
        return entries

    def _parse(self, path: str) -> tuple[Kind | None, str, str, str]:
        for kind in self.kinds:
            if not path.startswith(f"{kind.root}/"):
                continue
            parts = path.removeprefix(f"{kind.root}/").split("/")
            namespace = parts.pop(1) if parts[0] == "namespaces" else ""
            parts = parts[1:] if namespace else parts
            if parts and parts[0] == kind.plural:
                rest = [*parts[1:], "", ""]
                return kind, namespace, rest[0], rest[1]
        return None, "", "", ""


def _type(manifest: Manifest) -> tuple[str, str]:
    return str(manifest["apiVersion"]), str(manifest["kind"])


def _json(status: int, body: Any) -> Answer:
    return Answer(status, orjson.dumps(body))


def _refusal(status: int, reason: str) -> Answer:
    return _json(status, {"kind": "Status", "reason": reason, "message": reason})


def _bare(manifest: Manifest) -> dict[str, Any]:
    metadata = {key: value for key, value in manifest["metadata"].items() if key != "resourceVersion"}
    return {**manifest, "metadata": metadata}


def _nothing_dropped(manifest: Any) -> Any:
    """Leave out nulls, which a merge patch would take for removals."""
    if not isinstance(manifest, Mapping):
        return manifest
    items = cast("Mapping[str, Any]", manifest).items()
    return {key: _nothing_dropped(value) for key, value in items if value is not None}


def _without(live: Any, before: Any, after: Any, others: Iterable[Any]) -> Any:
    """Remove what the manager applied before, applies no more, and nobody else owns."""
    if not isinstance(live, Mapping) or not isinstance(before, Mapping):
        return cast("Any", live)
    rest = list(others)
    result: dict[str, Any] = {}
    for key, value in cast("Mapping[str, Any]", live).items():
        was, now = _get(before, key), _get(after, key)
        held = [other for other in (_get(one, key) for one in rest) if other is not None]
        if was is not None and now is None and not held:
            continue
        result[key] = _without(value, was, now if now is not None else {}, held) if was is not None else value
    return result


def _contradict(wanted: Any, live: Any, owned: Any) -> bool:
    """Say whether a field that somebody owns would get another value."""
    if not isinstance(wanted, Mapping) or not isinstance(owned, Mapping):
        return bool(wanted != live)
    keys = cast("Mapping[str, Any]", wanted).keys() & cast("Mapping[str, Any]", owned).keys()
    return any(_contradict(wanted[key], _get(live, key), owned[key]) for key in keys if key not in _IDENTITY)


def _get(value: Any, key: str) -> Any:
    return cast("Mapping[str, Any]", value).get(key) if isinstance(value, Mapping) else None


def _fields(owned: Any) -> dict[str, Any]:
    if not isinstance(owned, Mapping):
        return {}
    return {f"f:{key}": _fields(value) for key, value in cast("Mapping[str, Any]", owned).items()}


@dataclass(slots=True)
class RecordedQueue:
    """A queue that only remembers."""

    keys: list[WorkKey] = field(default_factory=list[WorkKey])
    urgent: list[WorkKey] = field(default_factory=list[WorkKey])

    def add(self, key: WorkKey, *, urgent: bool = False) -> None:
        self.keys.append(key)
        if urgent:
            self.urgent.append(key)


class TinyCore:
    """A core that makes one decode pool and one Deployment a service: the least that exercises the shell."""

    def service(self, observed: Observed) -> Outcome:
        service = observed.service
        metadata, spec = service["metadata"], service["spec"]
        name, namespace = str(metadata["name"]), str(metadata["namespace"])
        replicas = int(text(spec, "decode", "replicas") or 1)
        template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "engine", "image": "e:1"}]}}
        pool_name = f"{name}-decode"
        pool: dict[str, Any] = {
            "apiVersion": SERVICE.api_version,
            "kind": "DecodePool",
            "metadata": _metadata(namespace, pool_name, name, service),
            "spec": {"service": name, "revision": "r1", "podTemplate": template},
        }
        writes: list[Write] = [Apply(pool)]
        if not observed.pools:
            writes = [Create({**pool, "spec": {**pool["spec"], "replicas": replicas}})]
        for found in observed.pools:
            writes.append(Apply(self._deployment(found, template, name)))
        status: dict[str, Any] = {
            "observedGeneration": metadata.get("generation", 0),
            "url": str(spec.get("model", {}).get("name", "")),
            "conditions": [],
        }
        reference = Reference(SERVICE.api_version, SERVICE.kind, namespace, name)
        return Outcome(writes=writes, status=[Merge(reference, {"status": status}, "status")])

    def kv_store(self, observed: ObservedKVStore) -> Outcome:
        del observed
        return Outcome()

    def route(self, observed: ObservedRoute) -> Outcome:
        del observed
        return Outcome()

    @staticmethod
    def _deployment(pool: Manifest, template: Manifest, service: str) -> dict[str, Any]:
        metadata = pool["metadata"]
        labels = {"inferplane.dev/pool": metadata["name"], "inferplane.dev/revision": "r1"}
        return {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": _metadata(metadata["namespace"], f"{metadata['name']}-r1", service, pool),
            "spec": {
                "replicas": pool["spec"].get("replicas", 1),
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": template["spec"]},
            },
        }


def _metadata(namespace: str, name: str, service: str, owner: Manifest) -> dict[str, Any]:
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    labels = {"inferplane.dev/service": service}
    return {"namespace": namespace, "name": name, "labels": labels, "ownerReferences": [reference]}
