"""What a caller over gRPC says about one request, held to the rules of HTTP clients.

Problem: protobuf carries any text and any float.  An id with a line end forges headers where the reply's are written
into a request, and NaN compares with nothing, so that a limit of NaN is neither kept nor missed.
Invariant: what leaves here can stand in a header and can be compared.
"""

import math
import re
from typing import Final

from inferplane_api.proto import router_pb2 as pb
from inferplane_router.gateway.errors import BadRequestError
from inferplane_router.gateway.headers import Hints

_REQUEST_ID: Final = re.compile(r"[!-~]{1,128}")
_TENANT: Final = re.compile(r"[^\x00-\x1f\x7f]{0,256}")
_MAX_PRIORITY: Final = 100
_SECONDS: Final = ("ttft_limit_s", "tpot_limit_s", "deadline_s")


def read_hints(request: pb.PickRequest) -> Hints:
    """Return a pick's hints; a value that cannot be used is an error that names its field.

    An id that cannot stand in a header is refused: replaced, as it is over HTTP, it would answer no pick of a stream.
    """
    if request.request_id and not _REQUEST_ID.fullmatch(request.request_id):
        raise BadRequestError("request_id must be 1 to 128 printable ASCII characters", param="request_id")
    for name in _SECONDS:
        _check_seconds(name, float(getattr(request, name)))
    if abs(request.priority) > _MAX_PRIORITY:
        message = f"priority must be from -{_MAX_PRIORITY} to {_MAX_PRIORITY}, got {request.priority}"
        raise BadRequestError(message, param="priority")
    if not _TENANT.fullmatch(request.tenant):
        raise BadRequestError("tenant must be at most 256 characters without control characters", param="tenant")
    return Hints(
        request.request_id,
        request.session,
        request.priority,
        request.ttft_limit_s or None,
        request.tpot_limit_s or None,
    )


def _check_seconds(name: str, seconds: float) -> None:
    if not (math.isfinite(seconds) and seconds >= 0):
        raise BadRequestError(f"{name} must be a number of seconds above 0, or 0 for none, got {seconds}", param=name)
