"""What an object would become if a file were applied: asked of the API server, which stores nothing (a dry run).

Problem: whoever applies removes fields that the file had the last time and has no more, and the server adds defaults
and refuses what is wrong; a guess made here would differ.  Idea: the same patch that `kubectl apply` would send is
sent as a dry run.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from inferplane.cluster import APPLY_PATCH, Cluster, Object
from inferplane.kube.fields import annotation, name_of, namespace_of, part, text
from inferplane.kube.kinds import Kind
from inferplane.kube.objects import change, find, merge
from inferplane.kube.revisions import differences
from inferplane_api.schema.definitions import NAMES
from inferplane_api.v1alpha1.metadata import API_VERSION

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_SHOWN: Final = ("labels", "annotations")


@dataclass(frozen=True, slots=True)
class Preview:
    """An object now, None where it does not exist, and as it would be."""

    before: Object | None
    after: Object

    @property
    def called(self) -> str:
        return f"{text(self.after, 'kind')} {name_of(self.after)}"

    @property
    def lines(self) -> list[str]:
        """Every field that changes; none where the object is new."""
        if self.before is None:
            return []
        metadata = [
            line
            for key in _SHOWN
            for line in differences(_known(self.before, key), _known(self.after, key), f"metadata.{key}")
        ]
        return [*differences(self.before.get("spec"), self.after.get("spec")), *metadata]


def _known(found: Object, key: str) -> Object:
    return {name: value for name, value in part(found, "metadata", key).items() if name != LAST_APPLIED}


def preview(cluster: Cluster, document: Object, namespace: str) -> Preview:
    """Ask what a document of a file would make.  Raises ClusterError."""
    kind = Kind(API_VERSION, NAMES[text(document, "kind")].plural)
    where, name = namespace_of(document) or namespace, name_of(document)
    path, before = kind.path(where, name), find(cluster, kind, where, name)
    applied = None if before is None else annotation(before, LAST_APPLIED)
    if before is None or applied is None:
        return Preview(before, change(cluster, path, document, APPLY_PATCH, dry_run=True, force=True))
    return Preview(before, merge(cluster, path, patch(_read(applied), _annotated(document)), dry_run=True))


def _annotated(document: Object) -> Object:
    """Return a file's document as one with annotations: `kubectl apply` adds its own, so they are never removed whole.

    A file without any would else seem to take away those of others: a freeze, a pause.
    """
    return {**document, "metadata": {"annotations": {}, **part(document, "metadata")}}


def _read(applied: str) -> Object:
    try:
        found: object = json.loads(applied)
    except ValueError:
        return {}  # somebody wrote into it: then nothing is known to have been removed
    return cast("Object", found) if isinstance(found, Mapping) else {}


def patch(applied: Object, wanted: Object) -> dict[str, Any]:
    """Return the merge patch of an apply: all of `wanted`, and null for what only `applied` has.  Pure."""
    made: dict[str, Any] = {key: None for key in applied if key not in wanted}
    for key, value in wanted.items():
        old = applied.get(key)
        if isinstance(value, Mapping):
            made[key] = patch(cast("Object", old) if isinstance(old, Mapping) else {}, cast("Object", value))
        else:
            made[key] = value
    return made
