"""From a resource type to the structural schema that an API server wants.

pydantic writes JSON schema by reference, with unions for what may be absent and with defaults as Python holds them.  An
API server wants one tree: no references, one type a node, no unions, and defaults as they are written in a manifest.
What an API server cannot express as a shape comes from `rules`.
Invariant: nested parts of a spec always have a default when all of their fields do, so that rules find them.  A status
has neither defaults nor rules: nobody asks for it, an operator writes it whole.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from pydantic import BaseModel, TypeAdapter
from pydantic.fields import FieldInfo

from inferplane_api.schema.rules import FORM_RULES, RULES, Rule
from inferplane_api.v1alpha1.problems import nested_models
from inferplane_api.v1alpha1.wire import FORM, UNIT

Schema = dict[str, Any]

_DROPPED: Final = frozenset({"title", "default", "$defs"})
MARKS: Final = frozenset({FORM, UNIT})
"""Keys that the reference reads and no API server knows (see `without_marks`)."""
_EXAMPLES: Final = {
    "duration": 'Duration such as "1500ms", "2s" or "5m".',
    "bytes": 'Bytes such as "64Mi" or "2Gi".',
    "quantity": 'Quantity such as "500m", "4" or "64Gi".',
}
_INT32: Final = range(-(2**31), 2**31)
_INT64_MAX: Final = 2**63 - 1
_NOT_OURS: Final = ("apiVersion", "kind", "metadata")
"""Fields of a resource that look the same for every kind."""


def structural_schema(model: type[BaseModel]) -> Schema:
    """Return the whole schema of a resource type, with marks."""
    raw = model.model_json_schema(mode="validation")
    classes = {nested.__name__: nested for nested in nested_models(model)}
    writer = _Writer(raw.get("$defs", {}), classes)
    properties: Schema = {
        "apiVersion": {"type": "string", "description": "API group and version."},
        "kind": {"type": "string", "description": "Kind."},
        "metadata": {"type": "object"},
    }
    for name in raw["properties"]:
        if name not in _NOT_OURS:
            properties[name] = writer.write(raw["properties"][name], asked=name != "status")
    schema: Schema = {"type": "object", "properties": properties, "required": ["metadata", "spec"]}
    return schema | validations(RULES.get(model, ()))


def without_marks(node: Any) -> Any:
    """Return a copy of a schema without the keys that only the reference reads."""
    if isinstance(node, dict):
        fields = cast("Schema", node)
        return {key: without_marks(value) for key, value in fields.items() if key not in MARKS}
    if isinstance(node, list):
        return [without_marks(value) for value in cast("Sequence[Any]", node)]
    return node


def validations(rules: tuple[Rule, ...]) -> Schema:
    """Write rules as an API server reads them; nothing when there are none."""
    if not rules:
        return {}
    return {"x-kubernetes-validations": [_validation(rule) for rule in rules]}


def _validation(rule: Rule) -> Schema:
    # A path may name declared fields alone, and `metadata` has none: there the message says it.
    within = not rule.field.startswith("metadata.")
    message = rule.message if within else f"{rule.field} {rule.message}"
    path = {"fieldPath": f".{rule.field}"} if rule.field and within else {}
    return {"rule": rule.expression, "message": message, **path}


class _Writer:
    """Rewrites one type's JSON schema node by node."""

    def __init__(self, definitions: Mapping[str, Schema], classes: Mapping[str, type[BaseModel]]) -> None:
        self._definitions = definitions
        self._classes = classes

    def write(self, node: Schema, *, asked: bool) -> Schema:
        node, model = self._resolved(node)
        written = {key: value for key, value in node.items() if key not in _DROPPED}
        if written.get("maximum") == _INT64_MAX:
            del written["maximum"]  # the format says so
        written |= _bounds(written)
        if "additionalProperties" in written:
            inner = written.pop("additionalProperties")
            if isinstance(inner, dict):
                written["additionalProperties"] = self.write(cast("Schema", inner), asked=asked)
        if "items" in written:
            written["items"] = self.write(written["items"], asked=asked)
        if model is not None:
            written |= self._members(node, model, asked=asked)
        form = node.get(FORM, "")
        if form in _EXAMPLES:
            written["description"] = f"{written.get('description', '')} {_EXAMPLES[form]}".strip()
        if "items" in written and "x-kubernetes-list-type" not in written:
            written["x-kubernetes-list-type"] = "atomic"
        own = RULES.get(model, ()) if model is not None else ()
        return _ordered(written | (validations((*own, *FORM_RULES.get(form, ()))) if asked else {}))

    def _resolved(self, node: Schema) -> tuple[Schema, type[BaseModel] | None]:
        """Follow references and drop the null of what may be absent; the node's own words win."""
        model: type[BaseModel] | None = None
        while "$ref" in node or "anyOf" in node:
            own = {key: value for key, value in node.items() if key not in ("$ref", "anyOf")}
            if "$ref" in node:
                name = str(node["$ref"]).rpartition("/")[2]
                model = self._classes.get(name)
                node = {**self._definitions[name], **own}
            else:
                (option,) = [option for option in node["anyOf"] if option != {"type": "null"}]
                node = {**option, **own}
        return node, model

    def _members(self, node: Schema, model: type[BaseModel], *, asked: bool) -> Schema:
        properties: Schema = {}
        for field in model.model_fields.values():
            name = str(field.alias)
            properties[name] = self.write(node["properties"][name], asked=asked)
            if asked and (value := _default(field, properties[name])) is not None:
                properties[name] = _ordered({**properties[name], "default": value})
        return {"properties": properties}


def _default(field: FieldInfo, written: Schema) -> Any:
    """Return a field's default as a manifest has it; None when it has none or it says nothing, such as "" and []."""
    if field.is_required():
        return None
    value = field.get_default(call_default_factory=True, validated_data={})
    if isinstance(value, BaseModel):
        # Whole, as an API server checks rules against a default before it fills in the defaults inside.
        return {name: inner["default"] for name, inner in written["properties"].items() if "default" in inner}
    if value is None or value == "" or (isinstance(value, tuple | dict) and not value):
        return None
    annotated: Any = TypeAdapter(field.rebuild_annotation())
    return annotated.dump_python(value, mode="json")


def _bounds(node: Schema) -> Schema:
    """Write bounds as OpenAPI 3.0 has them, and say how wide a number is."""
    bounds: Schema = {}
    for side, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if exclusive in node:
            bounds |= {side: node[exclusive], exclusive: True}
    if node.get("type") == "number":
        bounds["format"] = "double"
    if node.get("type") == "integer" and "enum" not in node:
        narrow = node.get("minimum", -1) in _INT32 and node.get("maximum", 2**63) in _INT32
        bounds["format"] = "int32" if narrow else "int64"
    return bounds


def _ordered(node: Schema) -> Schema:
    """Put what people read first."""
    first = ("description", "type", "format", "default", "enum", "required")
    return {key: node[key] for key in (*first, *(key for key in node if key not in first)) if key in node}
