"""One object as the store keeps it: a few fields to find it by, the rest as compressed bytes.

Problem.  A parsed object takes ten times its JSON, and Pod templates are most of it: five hundred services with two
pools and two Deployments each would be a quarter of a gigabyte.
Idea.  Objects are read far less often than they are kept.  `managedFields` is reduced to what is asked of it, the rest
is JSON, packed where that pays (templates are repetitive: a fifth remains).
Trade-off.  Reading one costs a tenth of a millisecond.
"""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from sys import intern
from typing import Any, cast

import orjson

from inferplane_api.v1alpha1.metadata import GROUP
from inferplane_operator.cluster.field_owners import NOBODY, FieldOwners, read_owners
from inferplane_operator.cluster.raw import items, part, text
from inferplane_operator.reconcile.values import Manifest, Reference

_PACK_FROM_BYTES = 1024
_FASTEST = 1


@dataclass(frozen=True, slots=True, order=True)
class ObjectId:
    """What a name means within a cluster, whatever the API version."""

    kind: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Stored:
    """An object at one resource version."""

    id: ObjectId
    api_version: str
    uid: str
    version: int
    """The resource version as a number: the store goes by the newest; 0 where it is none."""
    generation: int
    controller: str
    """uid of the owner that controls it, or ""."""
    created: str
    target: str
    """Name of the object in the same namespace that this one names: the service of a pool or an adapter, the KVStore of
    a service."""
    served_names: tuple[str, ...]
    """Names that clients may use because of this object: a service's own, an adapter's."""
    terminating: bool
    owners: FieldOwners
    data: bytes
    packed: bool

    def manifest(self) -> dict[str, Any]:
        """Return the object, a new copy each time."""
        raw = zlib.decompress(self.data) if self.packed else self.data
        return cast("dict[str, Any]", orjson.loads(raw))

    def reference(self) -> Reference:
        return Reference(self.api_version, self.id.kind, self.id.namespace, self.id.name, self.uid)


def store_form(raw: Manifest) -> Stored:
    """Reduce an object as the API server serves it."""
    metadata = cast("Mapping[str, Any]", raw["metadata"])
    kept = {**raw, "metadata": {key: value for key, value in metadata.items() if key != "managedFields"}}
    data = orjson.dumps(kept)
    packed = len(data) >= _PACK_FROM_BYTES
    version = str(metadata.get("resourceVersion", ""))
    entries = metadata.get("managedFields")
    return Stored(
        id=ObjectId(
            intern(str(raw["kind"])), intern(str(metadata.get("namespace", ""))), intern(str(metadata["name"]))
        ),
        api_version=intern(str(raw["apiVersion"])),
        uid=intern(str(metadata.get("uid", ""))),
        version=int(version) if version.isdecimal() else 0,
        generation=int(metadata.get("generation") or 0),
        controller=intern(controller_of(metadata)),
        created=str(metadata.get("creationTimestamp") or ""),
        target=intern(_target(raw)),
        served_names=_served_names(raw),
        terminating="deletionTimestamp" in metadata,
        owners=read_owners(entries) if entries else NOBODY,
        data=zlib.compress(data, _FASTEST) if packed else data,
        packed=packed,
    )


def controller_of(metadata: Mapping[str, Any]) -> str:
    """Return the uid of the one owner that controls the object."""
    for owner in items(metadata, "ownerReferences"):
        if owner.get("controller"):
            return str(owner.get("uid", ""))
    return ""


def _target(raw: Manifest) -> str:
    if not str(raw["apiVersion"]).startswith(f"{GROUP}/"):
        return ""
    spec = part(raw, "spec")
    return str(text(spec, "kvStore", "name") if raw["kind"] == "InferenceService" else text(spec, "service"))


def _served_names(raw: Manifest) -> tuple[str, ...]:
    spec = part(raw, "spec")
    if raw["kind"] == "LoRAAdapter":
        return (str(spec.get("servedName") or raw["metadata"]["name"]),)
    if raw["kind"] != "InferenceService":
        return ()
    model = part(spec, "model")
    return tuple(str(name) for name in model.get("servedNames") or (model.get("name"),) if name)
