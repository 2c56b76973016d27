"""The reference of the custom resources, in Markdown: one table for each part of each kind, and what is checked.

It is made from the same schemas as the definitions, so it cannot say something else than an API server does.
A part that looks like one already listed (prefill and decode) refers to it.
"""

import json
from collections.abc import Iterator
from typing import Any, Final, cast

from inferplane_api.schema.definitions import NAMES, summary_of
from inferplane_api.schema.structural import Schema, structural_schema
from inferplane_api.v1alpha1.kinds import KINDS
from inferplane_api.v1alpha1.metadata import API_VERSION
from inferplane_api.v1alpha1.wire import FORM, UNIT

_HEAD: Final = f"""# Custom resources

API version `{API_VERSION}`.
Made by `make generate` from the types in `crds/inferplane_api`; do not edit.
A field without a default may be left out unless it is marked *required*.
Rules under a table are checked by the API server before anything is stored; they need Kubernetes 1.29 or newer.
"""
_TYPE_OF_FORM: Final = {
    "duration": ("string", "time"),
    "bytes": ("integer or string", "bytes"),
    "quantity": ("integer or string", "quantity"),
}


def reference() -> str:
    """Return the whole page."""
    return "\n".join([_HEAD, *(_kind(kind) for kind in NAMES)])


def _kind(kind: str) -> str:
    names = NAMES[kind]
    short = ", ".join(f"`{name}`" for name in names.short)
    scale = "  It has the scale subresource." if names.scales else ""
    head = f"## {kind}\n\n{summary_of(kind)}\n\n`{names.plural}`, short {short}.{scale}\n"
    schema = structural_schema(KINDS[kind])
    listed: dict[str, str] = {}
    parts = [part for name in ("spec", "status") for part in _parts(name, schema["properties"][name], listed)]
    return "\n".join([head, *parts, *_rules(schema)])


def _parts(path: str, node: Schema, listed: dict[str, str]) -> Iterator[str]:
    """List `node` and every part of it, each shape once."""
    shape = json.dumps({key: node[key] for key in ("properties", "required") if key in node}, sort_keys=True)
    if shape in listed:
        yield f"### {path}\n\nAs [{listed[shape]}](#{_anchor(listed[shape])}).\n"
        return
    listed[shape] = path
    rows = [_row(name, field, name in node.get("required", ())) for name, field in node["properties"].items()]
    table = ["| field | type | unit | default | meaning |", "|---|---|---|---|---|", *rows, ""]
    yield "\n".join([f"### {path}", "", *table, *_rules(node)])
    for name, field in node["properties"].items():
        inner, suffix = _inner(field)
        if "properties" in inner and not _is_free(inner):
            yield from _parts(f"{path}.{name}{suffix}", inner, listed)


def _inner(field: Schema) -> tuple[Schema, str]:
    return (field["items"], "[]") if "items" in field else (field, "")


def _is_free(node: Schema) -> bool:
    """Tell whether what is in `node` is another's business (a Pod template)."""
    return any("x-kubernetes-preserve-unknown-fields" in part for part in node["properties"].values())


def _row(name: str, field: Schema, required: bool) -> str:  # noqa: FBT001 - one row's cells in order
    kind, unit = _type_and_unit(field)
    default = f"`{_plain(field['default'])}`" if not isinstance(field.get("default"), dict | None) else ""
    cells = (f"`{name}`", kind, unit, "*required*" if required else default, _meaning(field))
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _type_and_unit(field: Schema) -> tuple[str, str]:
    if field.get(FORM) in _TYPE_OF_FORM:
        return _TYPE_OF_FORM[field[FORM]]
    if "items" in field:
        kind, unit = _type_and_unit(field["items"])
        return f"list of {kind}", unit
    if isinstance(field.get("additionalProperties"), dict):
        kind, unit = _type_and_unit(field["additionalProperties"])
        return f"map of {kind}", unit
    return str(field.get("type", "any")), str(field.get(UNIT, ""))


def _meaning(field: Schema) -> str:
    text = [str(field.get("description", "")).strip()]
    if choices := cast("list[Any]", field.get("enum", [])):
        text.append("One of " + ", ".join(f"`{_plain(choice)}`" for choice in choices) + ".")
    if bounds := _bounds(field):
        text.append(bounds)
    return " ".join(part for part in text if part)


def _bounds(field: Schema) -> str:
    low, high = field.get("minimum"), field.get("maximum")
    words: list[str] = []
    if low is not None:
        words.append(f"more than {low}" if field.get("exclusiveMinimum") else f"at least {low}")
    if high is not None and high < 2**31 - 1:
        words.append(f"less than {high}" if field.get("exclusiveMaximum") else f"at most {high}")
    if low == 0 and not field.get("exclusiveMinimum") and len(words) == 1:
        return ""
    for key, form in (("minItems", "at least {} entries"), ("maxItems", "at most {} entries")):
        if key in field:
            words.append(form.format(field[key]))
    return f"{' and '.join(words).capitalize()}." if words else ""


def _rules(node: Schema) -> list[str]:
    found = node.get("x-kubernetes-validations", [])
    lines = [f"- {_subject(rule)}{rule['message']}." for rule in found]
    return [*lines, ""] if lines else []


def _subject(rule: Schema) -> str:
    return f"`{rule['fieldPath'].removeprefix('.')}`: " if "fieldPath" in rule else ""


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _anchor(heading: str) -> str:
    return heading.lower().translate(str.maketrans("", "", ".[]"))
