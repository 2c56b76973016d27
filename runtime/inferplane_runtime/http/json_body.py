"""JSON bodies that are read, looked into, perhaps changed, and written again.

Problem: the parser reads deeper nesting than the writer writes, so that a body could be accepted here and then be
impossible to pass on, in the middle of a request's life.  Invariant: what `read_object` returns can be written.
"""

from typing import Any, cast

import orjson

_SURELY_SHALLOW = 250
"""Brackets that cannot nest deeper than the writer goes (254)."""


class JsonBodyError(Exception):
    """A body that cannot be used; the text is fit for its sender."""


def read_object(raw: bytes) -> dict[str, Any]:
    """Read a JSON object."""
    if not raw:
        raise JsonBodyError("the body is empty: a JSON object is required")
    try:
        value: object = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise JsonBodyError(f"the body is not valid JSON: {error}") from None
    if not isinstance(value, dict):
        raise JsonBodyError("the body must be a JSON object")
    if raw.count(b"{") + raw.count(b"[") > _SURELY_SHALLOW and not _writable(cast("object", value)):
        raise JsonBodyError("the body is nested too deeply")
    return cast("dict[str, Any]", value)


def _writable(value: object) -> bool:
    try:
        orjson.dumps(value)
    except TypeError:
        return False
    return True
