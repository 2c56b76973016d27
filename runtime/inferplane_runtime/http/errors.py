"""Errors that this side makes itself, in the shape that OpenAI clients expect.

Every component answers its own errors through here, so that a client sees one format whoever refused its request.
`HttpReject` is how the parser says that a message is not acceptable; the server turns it into an answer and closes.
"""

import orjson

from inferplane_runtime.http.api import Headers, Response

_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    413: "invalid_request_error",
    429: "rate_limit_error",
    431: "invalid_request_error",
    500: "internal_server_error",
    502: "upstream_error",
    503: "service_unavailable_error",
    504: "timeout_error",
}


class HttpReject(Exception):  # noqa: N818 - a verdict on a message, not a failure of this program
    """A message that cannot be accepted: the status and the words for its sender."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


def json_error(
    status: int,
    message: str,
    *,
    kind: str | None = None,
    param: str | None = None,
    code: str | int | None = None,
    headers: tuple[tuple[bytes, bytes], ...] = (),
) -> Response:
    """Build an OpenAI error object; `kind` (its `type`) and `code` follow from the status when not given."""
    error = {
        "message": message,
        "type": kind or _TYPES.get(status, "invalid_request_error"),
        "param": param,
        "code": status if code is None else code,
    }
    fields = Headers(((b"content-type", b"application/json"), *headers))
    return Response(status, fields, orjson.dumps({"error": error}))
