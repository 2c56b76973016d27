"""What can go wrong in the agent, and the one place where it becomes an HTTP answer.

AgentError
├── BadRequestError        the client's fault: 400, naming the field
├── UnknownPathError       404: not a route of the data path
├── RefusedError           503 with `x-inferplane-retry`: nothing reached the engine, try another worker
├── AdapterError           409: an adapter cannot be wanted here
└── EngineLostError        502: the engine's answer did not come, or not whole

Domain code raises or returns these; only `answer` knows status codes.
"""

import orjson

from inferplane_runtime.http.api import Headers, Response

RETRY_HEADER = (b"x-inferplane-retry", b"1")
JSON_HEADER = (b"content-type", b"application/json")


class AgentError(Exception):
    """Root of the agent's errors; `message` is fit for a client."""

    status = 500
    kind = "internal_error"
    code = "internal_error"
    retry = False

    def __init__(self, message: str, *, param: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param


class BadRequestError(AgentError):
    status = 400
    kind = "invalid_request_error"
    code = "invalid_request"


class UnknownPathError(AgentError):
    status = 404
    kind = "invalid_request_error"
    code = "unknown_path"


class RefusedError(AgentError):
    """Draining, starting or failed: safe to send elsewhere."""

    status = 503
    kind = "service_unavailable"
    code = "worker_unavailable"
    retry = True


class EngineLostError(AgentError):
    """The engine ended or hung.  Generating twice does no harm, so another worker may be tried."""

    status = 502
    kind = "engine_error"
    code = "engine_lost"
    retry = True


class EngineUnreachableError(EngineLostError):
    """No connection was made, so nothing reached the engine."""

    status = 503


class AdapterError(AgentError):
    """An adapter cannot be wanted here, and trying again alone would not help."""

    status = 409
    kind = "conflict"
    code = "adapter_refused"


class ConfigError(AgentError):
    """A flag has a wrong value; the message names it."""


def answer(error: AgentError) -> Response:
    """Render an error as an OpenAI error object."""
    body = {"error": {"message": error.message, "type": error.kind, "param": error.param, "code": error.code}}
    headers = (JSON_HEADER, RETRY_HEADER) if error.retry else (JSON_HEADER,)
    return Response(error.status, Headers(headers), orjson.dumps(body))
