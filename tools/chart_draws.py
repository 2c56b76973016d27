"""Hypothesis strategies for the chart's values, drawn from its schema.

A schema's `examples` stand for what it leaves to Kubernetes (tolerations, affinity); everything else is drawn from
types, bounds, patterns and choices.  Any value may be left out, as users leave most of them out.
"""

import copy
from collections.abc import Callable
from typing import Any, Final

from hypothesis import strategies as st

from chart_values import Schema, read_schema, resolved

_TEXT: Final = st.text(st.characters(codec="utf-8", exclude_categories=["C"]), max_size=12)


def values() -> st.SearchStrategy[dict[str, Any]]:
    """Draw values that the chart takes: what schema and checks allow."""
    schema = read_schema()
    return _drawn(schema, schema).map(consistent)


def consistent(values: dict[str, Any]) -> dict[str, Any]:
    """Mend what `templates/_checks.tpl` refuses, and nothing else."""
    for component in ("operator", "gateway", "planner"):
        account = values.get(component, {}).get("serviceAccount", {})
        if account.get("create") is False and not account.get("name"):
            account["name"] = "made-elsewhere"
    route = values.get("gateway", {}).get("httpRoute", {})
    if route.get("enabled") and not route.get("parentRefs"):
        route["parentRefs"] = [{"name": "public"}]
    if values.get("watchNamespace"):
        values.get("networkPolicies", {}).pop("workerNamespaces", None)
    return values


def release_names() -> st.SearchStrategy[str]:
    """Draw what Helm takes as a release's name."""
    return st.from_regex(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", fullmatch=True).filter(
        lambda name: len(name) <= 53  # noqa: PLR2004 - Helm's limit
    ) | st.from_regex(r"[a-z][a-z0-9]{52}", fullmatch=True)


def _drawn(schema: Schema, root: Schema) -> st.SearchStrategy[Any]:
    known = resolved(schema, root)
    if "examples" in known and known.get("type") != "string":
        return st.sampled_from(known["examples"]).map(_copied)
    if "enum" in known:
        return st.sampled_from(known["enum"])
    if "anyOf" in known:
        return st.one_of([_drawn(option, root) for option in known["anyOf"]])
    return _BY_TYPE[known["type"]](known, root)


def _copied(value: Any) -> Any:
    """Copy it: Hypothesis hands out the schema's own objects, and `consistent` changes what it gets."""
    return copy.deepcopy(value)


def _object(schema: Schema, root: Schema) -> st.SearchStrategy[Any]:
    properties: dict[str, Schema] = schema.get("properties", {})
    return st.fixed_dictionaries({}, optional={name: _drawn(inner, root) for name, inner in properties.items()})


def _array(schema: Schema, root: Schema) -> st.SearchStrategy[Any]:
    return st.lists(_drawn(schema["items"], root), max_size=3)


def _string(schema: Schema, _root: Schema) -> st.SearchStrategy[Any]:
    if "pattern" not in schema:
        return _TEXT
    pattern, longest = str(schema["pattern"]).removesuffix("$") + r"\Z", int(schema.get("maxLength", 253))
    fitting: st.SearchStrategy[str] = st.from_regex(pattern)
    bounded = fitting.filter(lambda text: len(text) <= longest)
    return st.sampled_from(schema["examples"]) | bounded if "examples" in schema else bounded


def _integer(schema: Schema, _root: Schema) -> st.SearchStrategy[Any]:
    return st.integers(schema["minimum"], schema["maximum"])


def _number(schema: Schema, _root: Schema) -> st.SearchStrategy[Any]:
    whole = st.integers(int(schema["minimum"]) + 1, schema["maximum"])
    return whole | st.floats(schema["minimum"], schema["maximum"]).map(lambda number: round(number, 3))


def _boolean(_schema: Schema, _root: Schema) -> st.SearchStrategy[Any]:
    return st.booleans()


_BY_TYPE: Final[dict[str, Callable[[Schema, Schema], st.SearchStrategy[Any]]]] = {
    "object": _object,
    "array": _array,
    "string": _string,
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
}
