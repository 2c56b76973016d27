"""Fields of objects as they are served, where any of them may be absent.  Pure."""

from collections.abc import Mapping, Sequence
from typing import cast

from inferplane.cluster import Object


def part(found: Object, *path: str) -> Object:
    """Return the mapping at a path; an empty one where there is none."""
    value = _at(found, path)
    return cast("Object", value) if isinstance(value, Mapping) else {}


def parts(found: Object, *path: str) -> Sequence[Object]:
    """Return the list of mappings at a path; an empty one where there is none."""
    value = _at(found, path)
    return cast("Sequence[Object]", value) if isinstance(value, list) else ()


def text(found: Object, *path: str) -> str:
    value = _at(found, path)
    return "" if value is None else str(value)


def number(found: Object, *path: str, default: int = 0) -> int:
    value = _at(found, path)
    return value if isinstance(value, int) else default


def _at(found: Object, path: tuple[str, ...]) -> object:
    for place, key in enumerate(path):
        value: object = found.get(key)
        if place + 1 == len(path) or not isinstance(value, Mapping):
            return value if place + 1 == len(path) else None
        found = cast("Object", value)
    return found


def name_of(found: Object) -> str:
    return text(found, "metadata", "name")


def namespace_of(found: Object) -> str:
    return text(found, "metadata", "namespace")


def label(found: Object, key: str) -> str:
    return text(part(found, "metadata", "labels"), key)


def annotation(found: Object, key: str) -> str | None:
    value = part(found, "metadata", "annotations").get(key)
    return None if value is None else str(value)


def condition(found: Object, kind: str) -> Object:
    """Return a condition of a status; one that nobody has set is Unknown."""
    unknown = {"type": kind, "status": "Unknown", "reason": "", "message": ""}
    return next((it for it in parts(found, "status", "conditions") if it.get("type") == kind), unknown)


def containers(pod_spec: Object) -> list[Object]:
    """Return a Pod's containers in the order in which they start."""
    return [*parts(pod_spec, "initContainers"), *parts(pod_spec, "containers")]


def container_states(pod: Object) -> list[Object]:
    return [*parts(pod, "status", "initContainerStatuses"), *parts(pod, "status", "containerStatuses")]
