"""What a value parsed from JSON is, told to the type checkers."""

from typing import Any, TypeGuard


def is_list(value: Any) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


def is_object(value: Any) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)
