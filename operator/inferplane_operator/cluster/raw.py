"""Reading raw objects: an absent part is an empty one, whatever lies between."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

NOTHING: Mapping[str, Any] = {}


def part(value: Mapping[str, Any], *keys: str) -> Mapping[str, Any]:
    """Return the mapping below `keys`."""
    for key in keys:
        found = value.get(key)
        if not isinstance(found, Mapping):
            return NOTHING
        value = cast("Mapping[str, Any]", found)
    return value


def items(value: Mapping[str, Any], *keys: str) -> Sequence[Mapping[str, Any]]:
    """Return the list of mappings below `keys`."""
    found = part(value, *keys[:-1]).get(keys[-1])
    return cast("Sequence[Mapping[str, Any]]", found) if isinstance(found, (list, tuple)) else ()


def text(value: Mapping[str, Any], *keys: str) -> str:
    """Return the scalar below `keys` as text."""
    found = part(value, *keys[:-1]).get(keys[-1])
    return "" if found is None else str(found)
