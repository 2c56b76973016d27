"""Reads objects as an API server stores them, for those who only need to know what is wanted.

Problem.  Resource definitions are upgraded before the processes that read the objects, and an operator writes its
status all the time: a reader that refuses what it does not know would lose a service to somebody else's upgrade.
Idea.  Only name, namespace, creation time and spec are read; fields that are not known here are left out, as an older
API server would have done.  Everything else is checked as strictly as for a file.
Invariant.  What `manifests.parse_resource` takes is taken here too, with the same spec.
"""

from collections.abc import Mapping
from typing import Any, Final, TypeVar, cast

import orjson
from pydantic import ValidationError

from inferplane_api.v1alpha1.problems import problems_of
from inferplane_api.v1alpha1.wire import FROM_OUTSIDE, WireModel

R = TypeVar("R", bound=WireModel)
_DOCUMENT: Final = ("apiVersion", "kind", "spec")
_METADATA: Final = ("name", "namespace", "creationTimestamp")
_UNKNOWN: Final = "extra_forbidden"


class StoredObjectError(ValueError):
    """The object says what this version cannot carry out; the text names each field and its fix."""


def read_stored(model: type[R], value: Mapping[str, Any]) -> R:
    """Validate name and spec of one object.  Raises StoredObjectError with all problems."""
    metadata: Mapping[str, Any] = value.get("metadata") or {}
    document = {key: value[key] for key in _DOCUMENT if key in value}
    document["metadata"] = {key: metadata[key] for key in _METADATA if key in metadata}
    try:
        return _validate(model, document)
    except ValidationError as error:
        known = _without_unknown(document, error)
        if known is None:
            raise _refusal(model, error) from error
    try:
        return _validate(model, known)
    except ValidationError as error:
        raise _refusal(model, error) from error


def _validate(model: type[R], document: Mapping[str, Any]) -> R:
    context = {FROM_OUTSIDE: True}
    text = orjson.dumps(document)  # JSON, so that "3" is no number, as for an API server
    return model.model_validate_json(text, strict=True, context=context, by_alias=True, by_name=False)


def _refusal(model: type[WireModel], error: ValidationError) -> StoredObjectError:
    problems = problems_of(error, root=model, line_of=lambda _: None)
    return StoredObjectError("; ".join(str(problem) for problem in problems))


def _without_unknown(document: Mapping[str, Any], error: ValidationError) -> dict[str, Any] | None:
    """Return a copy without the fields that the error calls unknown; None if there are none."""
    unknown = [details["loc"] for details in error.errors() if details["type"] == _UNKNOWN]
    if not unknown:
        return None
    known: dict[str, Any] = orjson.loads(orjson.dumps(document))
    for location in unknown:
        _remove(known, location)
    return known


def _remove(document: dict[str, Any], location: tuple[str | int, ...]) -> None:
    current: Any = document
    for part in location[:-1]:
        current = _step(current, part)
    if isinstance(current, dict):
        cast("dict[str | int, Any]", current).pop(location[-1], None)


def _step(current: Any, part: str | int) -> Any:
    """Go one step down; a name that is not there is a union member's, which pydantic puts into its paths."""
    if isinstance(part, int) or part in current:
        return current[part]
    return current
