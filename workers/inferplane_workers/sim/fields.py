"""Reading the fields of a request body: types, bounds, and vLLM's words when they are wrong."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import orjson

from inferplane_workers.sim.errors import ApiError, bad_request, invalid_field


@dataclass(frozen=True, slots=True)
class Body:
    """A JSON object with typed look-ups; unknown fields are ignored, as vLLM does."""

    values: Mapping[str, object]
    path: tuple[str | int, ...] = ()

    @classmethod
    def parse(cls, data: bytes) -> "Body":
        try:
            value: object = orjson.loads(data)
        except orjson.JSONDecodeError as error:
            raise ApiError(
                400,
                f"1 validation error:\n  {{'type': 'json_invalid', 'loc': 'body.{error.pos}', "
                f"'msg': 'JSON decode error', 'input': {{}}, 'ctx': {{'error': {error.msg!r}}}}}",
                kind="Bad Request",
                param=f"body.{error.pos}",
            ) from None
        return as_object(value, ())

    def at(self, name: str) -> tuple[str | int, ...]:
        return (*self.path, name)

    def has(self, name: str) -> bool:
        return self.values.get(name) is not None

    def raw(self, name: str) -> object:
        return self.values.get(name)

    def text(self, name: str, default: str | None = None) -> str | None:
        value = self.values.get(name)
        if value is None:
            return default
        if not isinstance(value, str):
            raise invalid_field("string_type", self.at(name), "Input should be a valid string", value)
        return value

    def flag(self, name: str, *, default: bool = False) -> bool:
        value = self.values.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise invalid_field("bool_type", self.at(name), "Input should be a valid boolean", value)
        return value

    def whole(self, name: str, default: int | None = None) -> int | None:
        value = self.values.get(name)
        if value is None:
            return default
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise invalid_field("int_type", self.at(name), "Input should be a valid integer", value)
        return value

    def number(self, name: str, default: float) -> float:
        value = self.values.get(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise invalid_field("float_type", self.at(name), "Input should be a valid number", value)
        return float(value)

    def body(self, name: str) -> "Body | None":
        value = self.values.get(name)
        return None if value is None else Body(as_object(value, self.at(name)).values, self.at(name))

    def items(self, name: str) -> list[object]:
        value = self.values.get(name)
        if value is None:
            return []
        return as_list(value, self.at(name))

    def required(self, name: str) -> object:
        if self.values.get(name) is None:
            raise invalid_field("missing", self.at(name), "Field required", dict(self.values))
        return self.values[name]


def as_object(value: object, path: tuple[str | int, ...]) -> "Body":
    if not isinstance(value, dict):
        raise invalid_field("dict_type", path, "Input should be a valid dictionary", value)
    return Body(cast("dict[str, object]", value), path)


def as_list(value: object, path: tuple[str | int, ...]) -> list[object]:
    if not isinstance(value, list):
        raise invalid_field("list_type", path, "Input should be a valid list", value)
    return cast("list[object]", value)


def as_tokens(value: object, path: tuple[str | int, ...], vocabulary: int) -> tuple[int, ...]:
    """Read a list of token ids within the vocabulary."""
    tokens = as_list(value, path)
    for index, token in enumerate(tokens):
        if isinstance(token, bool) or not isinstance(token, int):
            raise invalid_field("int_type", (*path, index), "Input should be a valid integer", token)
        if not 0 <= token < vocabulary:
            raise bad_request(f"Token id {token} is out of vocabulary", str(path[-1]) if path else None)
    return tuple(cast("list[int]", tokens))


def at_least(name: str, value: int, least: int) -> int:
    if value < least:
        raise bad_request(f"{name} must be at least {least}, got {value}.", name)
    return value


def between(name: str, value: float, low: float, high: float) -> float:
    if not low <= value <= high:
        raise bad_request(f"{name} must be in [{low:g}, {high:g}], got {value:g}.", name)
    return value
