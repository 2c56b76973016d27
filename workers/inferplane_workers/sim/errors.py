"""Errors of the simulated engine, in vLLM's shape.

ApiError
  carries status, type, message and parameter of one answer; raised while a request is read, mapped in one place.
"""

import re

import orjson

from inferplane_runtime.http.api import Headers, Response

_JSON = Headers(((b"content-type", b"application/json"),))
_LONGEST_INPUT = 200


class ApiError(Exception):
    """A request that is answered with an error object."""

    def __init__(self, status: int, message: str, *, kind: str = "BadRequestError", param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.kind = kind
        self.param = param

    def body(self) -> dict[str, object]:
        error = {"message": self.message, "type": self.kind, "param": self.param, "code": self.status}
        return {"error": error}

    def response(self) -> Response:
        return json_response(self.body(), self.status)


def bad_request(message: str, param: str | None = None) -> ApiError:
    return ApiError(400, message, param=param)


def invalid_field(kind: str, path: tuple[str | int, ...], message: str, value: object) -> ApiError:
    """Build the error that a request schema gives, as vLLM prints it."""
    shown = value if isinstance(value, bool | int | float) or value is None else str(value)[:_LONGEST_INPUT]
    detail = {"type": kind, "loc": ".".join(("body", *(str(part) for part in path))), "msg": message, "input": shown}
    return ApiError(
        400, f"1 validation error:\n  {detail}", kind="Bad Request", param=".".join(("body", *map(str, path)))
    )


def unknown_model(name: str) -> ApiError:
    return ApiError(404, f"The model `{name}` does not exist.", kind="NotFoundError", param="model")


def not_found(method: bytes) -> ApiError:
    del method
    return ApiError(404, "Not Found", kind="Not Found")


def engine_dead() -> ApiError:
    return ApiError(
        500, "EngineCore encountered an issue. See stack trace (above) for the root cause.", kind="InternalServerError"
    )


def json_response(value: object, status: int = 200, *headers: tuple[bytes, bytes]) -> Response:
    return Response(status, _JSON.plus(*headers), orjson.dumps(value))


def text_response(text: str, content_type: str = "text/plain; charset=utf-8") -> Response:
    return Response(200, Headers(((b"content-type", content_type.encode()),)), text.encode())


def sanitized(message: str) -> str:
    """Without file paths and addresses, as vLLM removes them."""
    return re.sub(r"(?:/[\w.\-]+){2,}", "<path>", message)
