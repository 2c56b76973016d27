"""Going back to an earlier revision of a service: which there are, and what the spec then becomes.  Pure.

A revision is what workers are made of, and only that goes back: sizes, objectives, routing and scaling stay as they
are, since they were changed for reasons of their own and restart nothing.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from inferplane.cluster import Object
from inferplane.errors import InvalidError
from inferplane.kube.fields import label, name_of, number, part, text
from inferplane_operator.render.names import LABEL_REVISION

_MADE_OF: Final = ("model", "engine", "drainTimeout", "kvStore")
_POOLS: Final = ("prefill", "decode")
_SIZES: Final = ("replicas", "minReplicas", "maxReplicas")
_ABSENT: Final = object()


@dataclass(frozen=True, slots=True)
class Revision:
    name: str
    number: int
    created: str
    spec: Mapping[str, Any]
    model_revision: str
    """Commit of the model's weights at that time; empty where there was none."""


def history(controller_revisions: Sequence[Object], service: str) -> list[Revision]:
    """Return the revisions of a service, oldest first; one that is used again has two entries for a moment."""
    found = [_revision(it, service) for it in controller_revisions if part(it, "data", "spec")]
    newest = {it.name: it for it in sorted(found, key=lambda it: (it.number, it.created))}
    return sorted(newest.values(), key=lambda it: (it.number, it.created))


def _revision(found: Object, service: str) -> Revision:
    return Revision(
        name=label(found, LABEL_REVISION) or name_of(found).removeprefix(f"{service}-"),
        number=number(found, "revision"),
        created=text(found, "metadata", "creationTimestamp"),
        spec=part(found, "data", "spec"),
        model_revision=text(found, "data", "modelRevision"),
    )


def to_go_back_to(revisions: Sequence[Revision], current: str, wanted: str) -> Revision:
    """Return the revision that is meant; by default the last one before the current.  Raises InvalidError."""
    if not revisions:
        raise InvalidError("no revision is kept yet; the operator writes one when workers first become ready")
    if wanted:
        found = [it for it in revisions if it.name.startswith(wanted)]
        if len(found) == 1:
            return found[0]
        problem = "is not kept" if not found else "fits several"
        raise InvalidError(f"--to: revision {wanted!r} {problem}; there are: {', '.join(it.name for it in revisions)}")
    earlier = [it for it in revisions if it.name != current]
    if not earlier:
        raise InvalidError(f"there is no revision but the current one, {current}")
    return earlier[-1]


def reverted(current: Mapping[str, Any], earlier: Revision) -> dict[str, Any]:
    """Return the current spec with everything that a worker is made of as it was."""
    spec: dict[str, Any] = json.loads(json.dumps(current))
    old: dict[str, Any] = json.loads(json.dumps(earlier.spec))
    for field in _MADE_OF:
        _put(spec, field, old.get(field, _ABSENT))
    for pool in _POOLS:
        _put(spec, pool, _pool(spec.get(pool), old.get(pool)))
    if ("prefill" in spec) != ("prefill" in current):
        _put(spec, "mode", old.get("mode", _ABSENT))  # the two go together
    if earlier.model_revision:
        spec["model"]["revision"] = earlier.model_revision  # a branch may have moved on since
    return spec


def _pool(now: Mapping[str, Any] | None, old: Mapping[str, Any] | None) -> object:
    if old is None:
        return _ABSENT
    if now is None:
        return old
    sizes = {key: now[key] for key in _SIZES if key in now}
    return {**{key: value for key, value in old.items() if key not in _SIZES}, **sizes}


def _put(spec: dict[str, Any], field: str, value: object) -> None:
    if value is _ABSENT:
        spec.pop(field, None)
    else:
        spec[field] = value


def differences(before: object, after: object, path: str = "spec") -> list[str]:
    """Return what changes, one line a field: `path: before -> after`."""
    line = f"{path}: {_text(before)} -> {_text(after)}"
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        ours, theirs = cast("Mapping[str, Any]", before), cast("Mapping[str, Any]", after)
        keys = sorted({*ours, *theirs})
        lines = (differences(ours.get(key, _ABSENT), theirs.get(key, _ABSENT), f"{path}.{key}") for key in keys)
        return [line for several in lines for line in several]
    return [] if before == after else [line]


def _text(value: object) -> str:
    return "(none)" if value is _ABSENT else json.dumps(value, ensure_ascii=False)
