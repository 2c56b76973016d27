"""What an API server does with a resource before it stores it, in a few lines of Python.

It fills in defaults, checks shapes and keyed lists, and evaluates the CEL rules, in an API server's order, so that
tests can hold definitions and types together without a cluster.  It knows what our definitions use and no more: another
key in a schema is an error, not something to pass over.  Costs of rules are the API server's business alone.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import cel

from inferplane_api.schema.definitions import custom_resource_definition
from inferplane_api.schema.structural import Schema
from inferplane_api.v1alpha1.units import parse_quantity

_INT_OR_STRING: Final = "x-kubernetes-int-or-string"
_FREE: Final = "x-kubernetes-preserve-unknown-fields"
_RULES: Final = "x-kubernetes-validations"
_LIST_TYPE: Final = "x-kubernetes-list-type"
_LIST_KEYS: Final = "x-kubernetes-list-map-keys"
_CONTAINERS: Final = frozenset({"properties", "items", "additionalProperties"})
_KNOWN: Final = _CONTAINERS | {
    "type", "description", "format", "default", "enum", "required", "pattern", "minimum", "maximum",
    "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength", "minItems", "maxItems", "minProperties",
    "maxProperties", _INT_OR_STRING, _FREE, _RULES, _LIST_TYPE, _LIST_KEYS,
}  # fmt: skip
_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
}


class ApiServer:
    """Knows one definition."""

    def __init__(self, kind: str) -> None:
        definition = custom_resource_definition(kind)
        self.schema: Schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]

    def defaulted(self, resource: Schema) -> Schema:
        """Return a copy with nulls dropped and defaults filled in."""
        filled: Schema = _defaulted(self.schema, resource)
        return filled

    def refusals(self, resource: Schema, before: Schema | None = None) -> list[str]:
        """Return what is wrong with a new resource, or with a change; empty when it would be stored."""
        value = self.defaulted(resource)
        if found := list(_misshapen(self.schema, value, "")):
            return found
        old = self.defaulted(before) if before is not None else None
        return list(_broken_rules(self.schema, value, old, ""))


def _defaulted(node: Schema, value: Any) -> Any:
    if isinstance(value, list) and "items" in node:
        return [_defaulted(node["items"], entry) for entry in cast("Sequence[Any]", value)]
    if not isinstance(value, dict):
        return cast("Any", value)
    fields = cast("Schema", value)
    if "additionalProperties" in node:
        return {key: _defaulted(node["additionalProperties"], entry) for key, entry in fields.items()}
    known: Schema = node.get("properties", {})
    filled = {key: entry for key, entry in fields.items() if key not in known or entry is not None}
    for name, inner in known.items():
        if name not in filled and "default" in inner:
            filled[name] = inner["default"]
        if name in filled:
            filled[name] = _defaulted(inner, filled[name])
    return filled


def _misshapen(node: Schema, value: Any, path: str) -> Iterator[str]:
    if not _fits_type(node, value):
        yield f"{path}: {value!r} is not {node.get('type', 'an integer or a string')}"
        return
    yield from (f"{path}: {problem}" for problem in _out_of_bounds(node, value))
    if isinstance(value, dict):
        yield from _misshapen_fields(node, cast("Schema", value), path)
    if isinstance(value, list):
        entries = cast("Sequence[Any]", value)
        for index, entry in enumerate(entries):
            yield from _misshapen(node["items"], entry, f"{path}[{index}]")
        if node[_LIST_TYPE] == "map":
            maps = [cast("Schema", entry) for entry in entries if isinstance(entry, dict)]
            keys = [[entry.get(key) for key in node[_LIST_KEYS]] for entry in maps]
            yield from (f"{path}: {key} is given twice" for index, key in enumerate(keys) if key in keys[:index])


def _misshapen_fields(node: Schema, fields: Schema, path: str) -> Iterator[str]:
    yield from (f"{path}.{name}: is missing" for name in node.get("required", ()) if name not in fields)
    for name, entry in fields.items():
        inner: Schema | None = node.get("properties", {}).get(name, node.get("additionalProperties"))
        if inner is not None:
            yield from _misshapen(inner, entry, f"{path}.{name}")
        elif _FREE not in node and "properties" in node:
            yield f"{path}.{name}: is not a field"


def _fits_type(node: Schema, value: Any) -> bool:
    if node.get(_INT_OR_STRING):
        return isinstance(value, str | int) and not isinstance(value, bool)
    kind = node["type"]
    return isinstance(value, _TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool))


def _out_of_bounds(node: Schema, value: Any) -> Iterator[str]:
    if "enum" in node and value not in node["enum"]:
        yield f"{value!r} is not one of {node['enum']}"
    if isinstance(value, str):
        if "pattern" in node and not re.search(node["pattern"], value, re.ASCII):
            yield f"{value!r} does not match {node['pattern']}"
        yield from _wrong_size(node, len(value), "Length")
    elif isinstance(value, list):
        yield from _wrong_size(node, len(cast("Sequence[Any]", value)), "Items")
    elif isinstance(value, dict):
        yield from _wrong_size(node, len(cast("Schema", value)), "Properties")
    elif isinstance(value, int | float) and not node.get(_INT_OR_STRING):
        low, high = node.get("minimum", value), node.get("maximum", value)
        if value < low or (value == low and node.get("exclusiveMinimum")):
            yield f"{value} is less than {low}"
        if value > high or (value == high and node.get("exclusiveMaximum")):
            yield f"{value} is more than {high}"
        if node.get("format") == "int64" and not -(2**63) <= value < 2**63:
            yield f"{value} does not fit 64 bits"


def _wrong_size(node: Schema, size: int, of: str) -> Iterator[str]:
    if not node.get(f"min{of}", 0) <= size <= node.get(f"max{of}", size):
        yield f"has {size} {of.lower()}"


def _broken_rules(node: Schema, value: Any, old: Any, path: str) -> Iterator[str]:
    if _RULES in node:
        context = cel.Context({"self": value, "oldSelf": old}, _FUNCTIONS)
        for rule in node[_RULES]:
            if (old is not None or "oldSelf" not in rule["rule"]) and not _holds(rule["rule"], context):
                yield f"{path}{rule.get('fieldPath', '')}: {rule['message']}"
    if isinstance(value, dict):
        for name, entry in cast("Schema", value).items():
            inner: Schema | None = node.get("properties", {}).get(name, node.get("additionalProperties"))
            if inner is not None:
                before = cast("Schema", old).get(name) if isinstance(old, dict) else None
                yield from _broken_rules(inner, entry, before, f"{path}.{name}")
    if isinstance(value, list):
        for index, entry in enumerate(cast("Sequence[Any]", value)):
            yield from _broken_rules(node["items"], entry, None, f"{path}[{index}]")


_PROGRAMS: Final[dict[str, cel.Program]] = {}


def _holds(rule: str, context: cel.Context) -> bool:
    if rule not in _PROGRAMS:
        _PROGRAMS[rule] = cel.compile(rule)
    try:
        return _PROGRAMS[rule].execute(context) is True
    except (KeyError, RuntimeError, TypeError, ValueError):
        return False  # an API server refuses what a rule cannot be evaluated for


def _quantity(text: str) -> str:
    parse_quantity(text)
    return text


def _as_float(text: str) -> float:
    return float(parse_quantity(text))


def _compare(left: str, right: str) -> int:
    one, other = parse_quantity(left), parse_quantity(right)
    return (one > other) - (one < other)


def _is_sorted(entries: list[Any]) -> bool:
    return entries == sorted(entries)


_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "quantity": _quantity,
    "asApproximateFloat": _as_float,
    "compareTo": _compare,
    "isSorted": _is_sorted,
}
"""What Kubernetes adds to CEL and our rules use; a quantity is kept as its text."""


@dataclass(frozen=True, slots=True)
class _Place:
    path: str
    root: bool = False


def unstructural(schema: Schema) -> list[str]:
    """Return where `schema` breaks the rules of structural schemas as Kubernetes documents them; empty when nowhere."""
    return list(_unstructural(schema, _Place("", root=True)))


def _unstructural(node: Schema, place: _Place) -> Iterator[str]:
    path = place.path or "root"
    yield from (f"{path}: {key} is not known here" for key in sorted(set(node) - _KNOWN))
    if place.root and (node.get("type") != "object" or "default" in node):
        yield "root: an object without default"
    if place.root and set(node["properties"]["metadata"]) - {"type"}:
        yield "metadata: nothing but its type"
    yield from _bad_type(node, path)
    yield from (f"{path}: {name} is required and not there" for name in _undeclared(node))
    yield from _bad_list(node, path)
    yield from _bad_rules(node, path)
    for name, inner in node.get("properties", {}).items():
        yield from _unstructural(inner, _Place(f"{place.path}.{name}"))
    for key in ("items", "additionalProperties"):
        if key in node:
            yield from _unstructural(node[key], _Place(f"{place.path}[]"))


def _bad_type(node: Schema, path: str) -> Iterator[str]:
    if "type" not in node and not node.get(_INT_OR_STRING) and not node.get(_FREE):
        yield f"{path}: has no type"
    if "type" in node and node.get(_INT_OR_STRING):
        yield f"{path}: an integer or string has no one type"
    if node.get(_FREE) and node.get("type", "object") != "object":
        yield f"{path}: only objects keep unknown fields"
    if len(_CONTAINERS & set(node)) > 1:
        yield f"{path}: properties, items and additionalProperties exclude each other"
    if not isinstance(node.get("additionalProperties", {}), dict):
        yield f"{path}: additionalProperties is a schema"


def _undeclared(node: Schema) -> list[str]:
    return [name for name in node.get("required", ()) if name not in node.get("properties", {})]


def _bad_list(node: Schema, path: str) -> Iterator[str]:
    if node.get("type") != "array":
        return
    keys, items = node.get(_LIST_KEYS, ()), node.get("items", {})
    if node.get(_LIST_TYPE) not in ("atomic", "set", "map") or (node.get(_LIST_TYPE) == "map") != bool(keys):
        yield f"{path}: has no list type, or the wrong one for its keys"
    for key in keys:
        inner = items.get("properties", {}).get(key, {})
        if key not in items.get("required", ()) and "default" not in inner:
            yield f"{path}: the key {key} may be absent"
        if inner.get("type") not in ("string", "integer", "boolean", "number"):
            yield f"{path}: the key {key} is not a scalar"


def _bad_rules(node: Schema, path: str) -> Iterator[str]:
    for rule in node.get(_RULES, ()):
        inner: Schema = node
        for name in filter(None, rule.get("fieldPath", "").split(".")):
            inner = inner.get("properties", {}).get(name, {})
        if not inner:
            yield f"{path}: {rule['fieldPath']} is not a field"
        if not rule["message"] or "\n" in rule["message"]:
            yield f"{path}: a message is one line"
