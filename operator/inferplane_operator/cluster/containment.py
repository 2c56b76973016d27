"""Whether an object already says what is wanted: every wanted field is there with the wanted value.

An API server adds defaults, other managers add fields, and quantities are rewritten (`1000m` comes back as `1`), so
equality is too strict and a digest alone sees no edit.  List elements with names are compared by name (others may have
added some), all other lists element by element.
"""

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, cast

_SUFFIXES = {
    "": Decimal(1),
    **{suffix: Decimal(10) ** power for suffix, power in (("n", -9), ("u", -6), ("m", -3), ("k", 3), ("M", 6))},
    **{suffix: Decimal(10) ** power for suffix, power in (("G", 9), ("T", 12), ("P", 15), ("E", 18))},
    **{f"{suffix}i": Decimal(1024) ** power for power, suffix in enumerate("KMGTPE", start=1)},
}

_QUANTITIES = re.compile(r"\.(requests|limits)\.[^\[]*$|\.(sizeLimit|divisor)$")
"""Where two spellings are one value; an environment variable of `1000m` is not one of `1`."""


def difference(wanted: Any, live: Any, path: str = "") -> str | None:
    """Return the path of the first wanted value that `live` does not have, or None."""
    if isinstance(wanted, Mapping):
        return _in_mapping(cast("Mapping[str, Any]", wanted), live, path)
    elements = _sequence(wanted)
    if elements is not None:
        return _in_sequence(elements, live, path)
    return None if _equal(wanted, live, quantity=_QUANTITIES.search(path) is not None) else path


def _in_mapping(wanted: Mapping[str, Any], live: Any, path: str) -> str | None:
    if not isinstance(live, Mapping):
        return path if any(not _empty(value) for value in wanted.values()) or live is not None else None
    found = cast("Mapping[str, Any]", live)
    for key, value in wanted.items():
        where = f"{path}.{key}" if path else key
        if key not in found and _empty(value):
            continue
        missing = difference(value, found.get(key), where)
        if missing is not None:
            return missing
    return None


def _in_sequence(wanted: Sequence[Any], live: Any, path: str) -> str | None:
    found = _sequence(live)
    if found is None:
        return None if not wanted and live is None else path
    if _named(wanted) and _named(found):
        by_name = {item["name"]: item for item in found}
        pairs: list[tuple[Any, Any, Any]] = [(item["name"], item, by_name.get(item["name"])) for item in wanted]
    elif len(wanted) != len(found):
        return path
    else:
        pairs = [(index, item, found[index]) for index, item in enumerate(wanted)]
    for label, item, other in pairs:
        missing = difference(item, other, f"{path}[{label}]")
        if missing is not None:
            return missing
    return None


def _sequence(value: Any) -> Sequence[Any] | None:
    return cast("Sequence[Any]", value) if isinstance(value, (list, tuple)) else None


def _named(items: Sequence[Any]) -> bool:
    return bool(items) and all(isinstance(item, Mapping) and "name" in item for item in items)


def _empty(value: Any) -> bool:
    """Say whether the server leaves a field out when it has this value: most of its types omit zeros."""
    return value is None or value in ({}, [], "", 0, False)


def _equal(wanted: Any, live: Any, *, quantity: bool) -> bool:
    if isinstance(wanted, bool) or isinstance(live, bool):
        return wanted is live
    if wanted == live:
        return True
    return quantity and live is not None and _quantity(wanted) == _quantity(live) is not None


def _quantity(value: str | float) -> Decimal | None:
    text = str(value)
    number = text.rstrip("numkKMGTPEi")
    factor = _SUFFIXES.get(text[len(number) :])
    if factor is None:
        return None
    try:
        return Decimal(number) * factor
    except InvalidOperation:
        return None
