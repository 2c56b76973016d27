"""Writes the reference of the chart's values from its schema and its defaults: docs/reference/values.md.

The schema says what a value means and may be, values.yaml what it is by default; this page says both, and neither of
them can be changed without it.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import yaml

ROOT: Final = Path(__file__).parents[1]
CHART: Final = ROOT / "helm" / "inferplane"
PAGE: Final = ROOT / "docs" / "reference" / "values.md"
_HEAD: Final = """# Values of the Helm chart

Made by `make generate` from `helm/inferplane/values.schema.json` and `values.yaml`; do not edit.
Values that the schema does not know are refused: a misspelt one is an error, not a silence.
[How to install](../how-to/install.md) shows them at work.
"""
Schema = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Value:
    """One value that can be set."""

    path: str
    schema: Schema
    default: object

    @property
    def section(self) -> str:
        return self.path.partition(".")[0]


def read_schema() -> Schema:
    return dict(json.loads((CHART / "values.schema.json").read_text("utf-8")))


def read_defaults() -> Mapping[str, Any]:
    return dict(yaml.safe_load((CHART / "values.yaml").read_text("utf-8")))


def resolved(schema: Schema, root: Schema) -> Schema:
    """Follow `$ref`; what stands beside it, such as a description, wins."""
    if "$ref" not in schema:
        return schema
    target = root["definitions"][str(schema["$ref"]).rpartition("/")[2]]
    return {**resolved(target, root), **{key: value for key, value in schema.items() if key != "$ref"}}


def values(schema: Schema, defaults: object, root: Schema, path: str = "") -> Iterator[Value]:
    """Yield every value below a schema; an object whose keys are the user's own is one value."""
    known = resolved(schema, root)
    if "properties" not in known or known.get("type") != "object":
        yield Value(path, known, defaults)
        return
    given = cast("Mapping[str, object]", defaults if isinstance(defaults, dict) else {})
    for name, inner in known["properties"].items():
        yield from values(inner, given.get(name), root, f"{path}.{name}" if path else name)


def page() -> str:
    schema, defaults = read_schema(), read_defaults()
    sections = [
        _section(name, resolved(inner, schema), defaults.get(name), schema)
        for name, inner in schema["properties"].items()
        if "properties" in resolved(inner, schema)
    ]
    flat = [
        value
        for name, inner in schema["properties"].items()
        if "properties" not in resolved(inner, schema)
        for value in values(inner, defaults.get(name), schema, name)
    ]
    return "\n".join([_HEAD, _table(flat), *sections])


def _section(name: str, schema: Schema, defaults: object, root: Schema) -> str:
    return f"## {name}\n\n{schema['description']}\n\n{_table(list(values(schema, defaults, root, name)))}"


def _table(rows: list[Value]) -> str:
    lines = ["| value | type | default | meaning |", "|---|---|---|---|"]
    lines += [
        f"| `{row.path}` | {_kind(row.schema)} | {_default(row.default)} | {_meaning(row.schema)} |" for row in rows
    ]
    return "\n".join(lines) + "\n"


def _kind(schema: Schema) -> str:
    if "enum" in schema:
        return "string"
    kinds = [str(option["type"]) for option in schema["anyOf"]] if "anyOf" in schema else [str(schema["type"])]
    return " or ".join(kinds)


def _default(default: object) -> str:
    return "" if default is None else f"`{json.dumps(default)}`"


def _meaning(schema: Schema) -> str:
    parts = [str(schema["description"])]
    if "enum" in schema:
        parts.append("One of " + ", ".join(f"`{choice}`" for choice in schema["enum"]) + ".")
    if "minimum" in schema:
        parts.append(f"From {schema['minimum']} to {schema['maximum']}.")
    return " ".join(parts).replace("|", "\\|")


def main() -> None:
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
