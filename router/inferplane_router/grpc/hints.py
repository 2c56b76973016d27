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
    ttft_s, tpot_s = request.ttft_limit_s, request.tpot_limit_s
    if not (0.0 <= ttft_s < math.inf and 0.0 <= tpot_s < math.inf and 0.0 <= request.deadline_s < math.inf):
        raise _bad_seconds(request)
    if abs(request.priority) > _MAX_PRIORITY:
        message = f"priority must be from -{_MAX_PRIORITY} to {_MAX_PRIORITY}, got {request.priority}"
        raise BadRequestError(message, param="priority")
    if not _TENANT.fullmatch(request.tenant):
        raise BadRequestError("tenant must be at most 256 characters without control characters", param="tenant")
    return Hints(
        request.request_id,
        request.session,
        request.priority,
        ttft_s or None,
        tpot_s or None,
    )


def _bad_seconds(request: pb.PickRequest) -> BadRequestError:
    """Name the first limit that is none."""
    given = {name: float(getattr(request, name)) for name in _SECONDS}
    name = next(name for name, seconds in given.items() if not 0.0 <= seconds < math.inf)
    words = f"{name} must be a number of seconds above 0, or 0 for none, got {given[name]}"
    return BadRequestError(words, param=name)
