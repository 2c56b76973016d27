"""Comparing structural schemas: does a cluster's definition know every field that this program may send?  Pure."""

from collections.abc import Iterator, Mapping
from typing import Any, cast

from inferplane.kube.fields import part

Schema = Mapping[str, Any]


def missing_fields(ours: Schema, theirs: Schema) -> list[str]:
    """Return the outermost fields of `ours` that `theirs` would drop."""
    return list(_missing(ours, theirs, ""))


def _missing(ours: Schema, theirs: Schema, path: str) -> Iterator[str]:
    if theirs.get("x-kubernetes-preserve-unknown-fields"):
        return
    known = part(theirs, "properties")
    for name, schema in part(ours, "properties").items():
        where = f"{path}.{name}".lstrip(".")
        if name not in known:
            yield where
        else:
            yield from _missing(schema, known[name], where)
    for place in ("items", "additionalProperties"):
        below, beside = ours.get(place), theirs.get(place)
        if isinstance(below, Mapping) and isinstance(beside, Mapping):
            yield from _missing(cast("Schema", below), cast("Schema", beside), f"{path}[]")
