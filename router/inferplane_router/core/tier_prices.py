"""What workers say that loading from their tiers costs, as far as it can be believed.

A price that is no time, or that no tier takes, is not heard: one worker's nonsense must not draw all requests or none.
"""

from collections.abc import Iterable
from math import isfinite
from typing import Final

from inferplane_api.proto import worker_pb2
from inferplane_router.core.index_kernels import DISK, HOST, REMOTE

_PLANES: Final = {
    worker_pb2.PLANE_HOST: HOST,
    worker_pb2.PLANE_DISK: DISK,
    worker_pb2.PLANE_REMOTE: REMOTE,
}
DEAREST_S: Final = 1.0
"""Of one token.  A tier this slow is fetched from by nobody."""


def prices_of(said: Iterable[worker_pb2.TierPrice]) -> dict[int, float]:
    """Return seconds per token by plane of the index."""
    return {
        _PLANES[each.plane]: min(each.token_s, DEAREST_S)
        for each in said
        if each.plane in _PLANES and isfinite(each.token_s) and each.token_s > 0.0
    }
