"""What the gateway refuses, and the one place where a refusal becomes an HTTP answer.

GatewayError
├── BadRequestError     400, naming the field
├── UnknownModelError   404
├── UnknownRouteError   404 or 405
├── NoPlaceError        the router found no worker: 429 when waiting helps, 503 when there is none
└── UpstreamLostError   502 or 504: no worker gave an answer

Errors of an engine are not here: they pass through as they are.
"""

from typing import Final

from inferplane_api.proto.worker_pb2 import (
    OUTCOME_BAD_REQUEST,
    OUTCOME_DEADLINE,
    OUTCOME_ENGINE_LOST,
    OUTCOME_REFUSED,
    Outcome,
)
from inferplane_router.core.values import RefusalReason, Refused
from inferplane_runtime.http.api import Response, UpstreamFailure
from inferplane_runtime.http.errors import json_error


class GatewayError(Exception):
    """Root; `outcome` is its low-cardinality label."""

    status: int = 500
    outcome: Outcome = OUTCOME_ENGINE_LOST

    def __init__(self, message: str, *, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.code = code


class BadRequestError(GatewayError):
    status = 400
    outcome = OUTCOME_BAD_REQUEST


class UnknownModelError(GatewayError):
    status = 404
    outcome = OUTCOME_BAD_REQUEST


class UnknownRouteError(GatewayError):
    status = 404
    outcome = OUTCOME_BAD_REQUEST


class WrongMethodError(UnknownRouteError):
    status = 405


class NoPlaceError(GatewayError):
    """The router refused."""

    def __init__(self, refused: Refused) -> None:
        super().__init__(refused.message, code=refused.reason.value)
        self.status = _REFUSALS[refused.reason]
        self.outcome = OUTCOME_DEADLINE if refused.reason is RefusalReason.DEADLINE else OUTCOME_REFUSED
        self.retry_after_s = refused.retry_after_s


class UpstreamLostError(GatewayError):
    """No worker gave an answer; the detail is for the log, not for the client."""

    def __init__(self, failure: UpstreamFailure) -> None:
        timeout = failure is UpstreamFailure.TIMEOUT
        words = "the worker did not answer in time" if timeout else "the worker was lost before it answered"
        super().__init__(words, code=f"upstream_{failure.value}")
        self.status = 504 if timeout else 502


_SHOWN: Final = 256
"""Characters of a client's own text that an error repeats."""
_REFUSALS: Final = {
    RefusalReason.NO_WORKERS: 503,
    RefusalReason.QUEUE_FULL: 429,
    RefusalReason.DEADLINE: 429,
}


def unknown_model(name: str, known: tuple[str, ...]) -> UnknownModelError:
    served = ", ".join(known) or "none"
    shown = name if len(name) <= _SHOWN else f"{name[:_SHOWN]}..."
    return UnknownModelError(
        f"The model `{shown}` does not exist. Served here: {served}.", param="model", code="model_not_found"
    )


def nothing_served() -> NoPlaceError:
    """Refuse while no service is known: a router that has just started may serve this very model in a moment."""
    return NoPlaceError(Refused("", RefusalReason.NO_WORKERS, "no service is known here yet", retry_after_s=1.0))


def answer(error: GatewayError, *, headers: tuple[tuple[bytes, bytes], ...] = ()) -> Response:
    """Map an error to its answer."""
    if isinstance(error, NoPlaceError):
        headers = (*headers, (b"retry-after", b"%d" % max(1, round(error.retry_after_s))))
    return json_error(error.status, error.message, param=error.param, code=error.code, headers=headers)
