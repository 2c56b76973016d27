"""Reads raw objects, in which any part may be absent or null."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

_NOTHING: Mapping[str, Any] = {}


def section(found: Mapping[str, Any], *path: str) -> Mapping[str, Any]:
    """Return the mapping at `path`, an empty one where there is none."""
    current: Any = found
    for part in path:
        current = cast("Mapping[str, Any]", current).get(part) if isinstance(current, Mapping) else None
    return cast("Mapping[str, Any]", current) if isinstance(current, Mapping) else _NOTHING


def listed(found: Mapping[str, Any], *path: str) -> Sequence[Mapping[str, Any]]:
    """Return the list of mappings at `path`, an empty one where there is none."""
    above = section(found, *path[:-1])
    return cast("Sequence[Mapping[str, Any]]", above.get(path[-1]) or ())


def text(found: Mapping[str, Any], *path: str) -> str:
    """Return the text at `path`, "" where there is none."""
    value = section(found, *path[:-1]).get(path[-1])
    return "" if value is None else str(value)


def labels(found: Mapping[str, Any]) -> Mapping[str, str]:
    return section(found, "metadata", "labels")


def annotations(found: Mapping[str, Any]) -> Mapping[str, str]:
    return section(found, "metadata", "annotations")
