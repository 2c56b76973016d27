"""Whether a write is needed: the rule that nothing is written which changes nothing.

Problem.  Reconciling wants the same objects again and again, and the API server stores even an apply that changes
nothing in the audit log, after having merged it.
Idea.  An applied object carries a digest of what was applied, so the next operator sees it too.  An apply is dropped
when the digest is there and every wanted field is there (`containment`).  What cannot be made to agree (a list to which
somebody keeps adding) is remembered: applied once, and again only after the object moved.
Trade-off.  Comparing costs as much as a few percent of a write.
Invariant.  A field that stopped being wanted changes the digest, so it is removed although it contradicts nothing.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final, cast

import orjson

from inferplane_operator.cluster.containment import difference
from inferplane_operator.cluster.raw import part
from inferplane_operator.cluster.stored import ObjectId, Stored
from inferplane_operator.reconcile.values import Apply, Manifest, Merge

APPLIED: Final = "inferplane.dev/applied"
"""Annotation of everything that the operator applies: a digest of what it wanted."""
APPLY: Final = "apply"
PURPOSES: Final = (APPLY, "", "status", "scale")
_DIGEST_BYTES = 8
_BOOKKEEPING = frozenset({"resourceVersion", "managedFields", "generation"})


class Need(Enum):
    """Why an object is applied."""

    NONE = auto()
    ABSENT = auto()
    CHANGED = auto()
    """Something else is wanted than before."""
    EDITED = auto()
    """The same is wanted, and somebody wrote over it."""


@dataclass(frozen=True, slots=True)
class Necessity:
    need: Need
    field: str = ""
    """Where the object differs."""
    editor: str = ""
    """Who wrote it last, if it was edited."""


def digest(manifest: Any) -> str:
    text = orjson.dumps(manifest, option=orjson.OPT_SORT_KEYS)
    return hashlib.blake2b(text, digest_size=_DIGEST_BYTES).hexdigest()


def with_digest(manifest: Manifest, wanted: str) -> dict[str, Any]:
    """Return the manifest as it is applied."""
    metadata = part(manifest, "metadata")
    annotations = {**part(metadata, "annotations"), APPLIED: wanted}
    return {**manifest, "metadata": {**metadata, "annotations": annotations}}


class Memory:
    """What was written and what the object was like afterwards."""

    def __init__(self) -> None:
        self._written: dict[tuple[ObjectId, str], tuple[str, str, str]] = {}

    def note(self, live: Stored, purpose: str, wanted: str) -> None:
        """Remember a write: its purpose (apply, or a subresource), its digest and what came of it."""
        self._written[live.id, purpose] = (live.uid, wanted, shape(live.manifest(), purpose))

    def settled(self, live: Stored, purpose: str, wanted: str) -> bool:
        """Say whether this very write was made and the object has not moved since."""
        before = self._written.get((live.id, purpose))
        return before is not None and before == (live.uid, wanted, shape(live.manifest(), purpose))

    def forget(self, id_: ObjectId) -> None:
        for purpose in PURPOSES:
            self._written.pop((id_, purpose), None)


def shape(manifest: Manifest, purpose: str) -> str:
    """Digest what a write may have changed: the status, or all the rest but the bookkeeping of the server."""
    if purpose == "status":
        return digest(manifest.get("status"))
    metadata = {key: value for key, value in manifest["metadata"].items() if key not in _BOOKKEEPING}
    return digest({**manifest, "metadata": metadata, "status": None})


def apply_needed(write: Apply, live: Stored | None, memory: Memory) -> Necessity:
    if live is None:
        return Necessity(Need.ABSENT)
    wanted, manifest = digest(write.manifest), live.manifest()
    known = part(manifest, "metadata", "annotations").get(APPLIED)
    field = difference(_without_identity(write.manifest), manifest)
    if known == wanted and field is None:
        return Necessity(Need.NONE)
    if memory.settled(live, APPLY, wanted):
        return Necessity(Need.NONE)
    if known == wanted:
        return Necessity(Need.EDITED, field or "", live.owners.editor)
    return Necessity(Need.CHANGED, field or "")


def merge_needed(write: Merge, live: Stored | None, memory: Memory) -> bool:
    """Say whether a merge patch would change the object; one that is not watched is always patched."""
    if live is None:
        return True
    manifest = live.manifest()
    if merged(manifest, write.patch) == manifest:
        return False
    return not memory.settled(live, write.subresource, digest(write.patch))


def merged(target: Any, patch: Any) -> Any:
    """Apply a JSON merge patch (RFC 7396)."""
    if not isinstance(patch, Mapping):
        return patch
    result = dict(cast("Mapping[str, Any]", target)) if isinstance(target, Mapping) else {}
    for key, value in cast("Mapping[str, Any]", patch).items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def _without_identity(manifest: Manifest) -> dict[str, Any]:
    return {key: value for key, value in manifest.items() if key not in ("apiVersion", "kind")}
