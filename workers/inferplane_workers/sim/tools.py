"""Tool calls on demand: valid against the tool's schema, and the same each time.

The simulated model cannot decide to call a tool; it calls one where the request says that it must.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast
from uuid import NAMESPACE_OID, uuid5

import orjson

from inferplane_workers.sim.errors import bad_request
from inferplane_workers.sim.fields import Body, as_object
from inferplane_workers.sim.generation import Choice

_DEEPEST = 8


@dataclass(frozen=True, slots=True)
class ToolCall:
    """The call that every choice makes; its arguments stream in one piece a token."""

    name: str
    pieces: tuple[str, ...]
    named: bool
    request_id: str

    def _id(self, index: int) -> str:
        return f"chatcmpl-tool-{uuid5(NAMESPACE_OID, f'{self.request_id}/{index}').hex}"

    def whole(self, index: int) -> dict[str, object]:
        return {
            "id": self._id(index),
            "type": "function",
            "function": {"name": self.name, "arguments": "".join(self.pieces)},
        }

    def delta(self, token: int, choice: Choice) -> dict[str, object]:
        """Return what the `token`th output token (from 1) adds."""
        if not 0 < token <= len(self.pieces):
            return {}
        call: dict[str, object] = {"index": 0, "function": {"arguments": self.pieces[token - 1]}}
        if token == 1:
            call |= {
                "id": self._id(choice.index),
                "type": "function",
                "function": {"name": self.name, "arguments": self.pieces[0]},
            }
        return {"tool_calls": [call]}


def read_tool_call(body: Body, request_id: str) -> ToolCall | None:
    """Return the call that `tool_choice` demands, or None; raises ApiError."""
    choice = body.raw("tool_choice")
    if body.has("tools") and not body.items("tools"):
        raise bad_request(
            "`tools` must not be an empty array. Either provide at least one tool or omit the field entirely.", "tools"
        )
    tools = [_function(as_object(tool, (*body.at("tools"), n))) for n, tool in enumerate(body.items("tools"))]
    if choice in (None, "none", "auto"):
        return None
    if not tools:
        raise bad_request("When using `tool_choice`, `tools` must be set.", "tool_choice")
    if choice == "required":
        return _call(tools[0], request_id, named=False)
    if not isinstance(choice, dict):
        raise bad_request(
            f'Invalid value for `tool_choice`: {choice}! Only named tools, "none", "auto" or "required" are supported.',
            "tool_choice",
        )
    wanted = _function(as_object(cast("object", choice), body.at("tool_choice"))).text("name")
    for tool in tools:
        if tool.text("name") == wanted:
            return _call(tool, request_id, named=True)
    raise bad_request("The tool specified in `tool_choice` does not match any of the specified `tools`", "tool_choice")


def _function(tool: Body) -> Body:
    function = tool.body("function")
    if function is None or not function.text("name"):
        raise bad_request(f"Expected field `name` in `function` in `{tool.path[0]}`!", str(tool.path[0]))
    return function


def _call(function: Body, request_id: str, *, named: bool) -> ToolCall:
    schema = function.body("parameters")
    arguments = orjson.dumps(example({} if schema is None else dict(schema.values))).decode()
    size = 4
    pieces = tuple(arguments[start : start + size] for start in range(0, len(arguments), size))
    return ToolCall(function.text("name") or "", pieces, named, request_id)


def example(schema: dict[str, object], depth: int = 0) -> object:
    """Return the smallest value that a JSON schema of the common kind allows."""
    for key in ("const", "default"):
        if key in schema:
            return schema[key]
    listed = _listed(schema, "enum") or _listed(schema, "examples")
    if listed:
        return listed[0]
    if depth > _DEEPEST:
        return None
    for key in ("anyOf", "oneOf", "allOf"):
        options = _listed(schema, key)
        if options:
            return example(cast("dict[str, object]", options[0]), depth + 1)
    kinds = _listed(schema, "type") or [schema.get("type")]
    make = _EXAMPLES.get(str(kinds[0]), _object)
    return make(schema, depth)


def _listed(schema: dict[str, object], name: str) -> list[object]:
    value = schema.get(name)
    return cast("list[object]", value) if isinstance(value, list) else []


def _number(schema: dict[str, object], name: str) -> int | float:
    value = schema.get(name)
    return value if isinstance(value, int | float) else 0


def _number_example(schema: dict[str, object], depth: int) -> object:
    del depth
    if "exclusiveMinimum" in schema:
        return _number(schema, "exclusiveMinimum") + 1
    return _number(schema, "minimum")


def _array(schema: dict[str, object], depth: int) -> object:
    items = schema.get("items")
    item = example(cast("dict[str, object]", items) if isinstance(items, dict) else {}, depth + 1)
    return [item] * int(_number(schema, "minItems"))


def _object(schema: dict[str, object], depth: int) -> object:
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return {}
    kinds = cast("dict[str, dict[str, object]]", properties)
    wanted = [str(name) for name in _listed(schema, "required")] if "required" in schema else list(kinds)
    return {name: example(kinds.get(name, {}), depth + 1) for name in wanted}


_EXAMPLES: dict[str, Callable[[dict[str, object], int], object]] = {
    "integer": _number_example,
    "number": _number_example,
    "string": lambda schema, _: "text".ljust(int(_number(schema, "minLength")), "-"),
    "boolean": lambda _, __: True,
    "array": _array,
    "object": _object,
    "null": lambda _, __: None,
}
