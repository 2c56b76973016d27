"""Whether a worker gets requests: a table of transitions.

A worker is what its agent says (starting, ready, draining, failed) as long as its stream stands.  A lost stream, a
request that it did not take, or a breaker that opened makes it suspect, not failed: it gets requests only when nobody
better is left, since the data path may well work.  A suspect worker is cleared by what it says next (not while its
breaker holds, see `breaking`) or, while its stream stands, by time; without a stream it is given up after a while.
An event without a row leaves the state as it is.
"""

from enum import StrEnum
from typing import Final

from inferplane_api.proto import worker_pb2
from inferplane_router.core.values import Health


class HealthEvent(StrEnum):
    """What can happen to a worker's health."""

    SAID_STARTING = "said starting"
    SAID_READY = "said ready"
    SAID_DRAINING = "said draining"
    SAID_FAILED = "said failed"
    STREAM_LOST = "stream lost"
    REQUEST_FAILED = "request failed"
    BREAKER_OPENED = "too many errors, or far slower than its peers"
    HELD_OUT = "no failure for a while"
    SILENT = "silent for too long"


_SAYS: Final = {
    HealthEvent.SAID_STARTING: Health.STARTING,
    HealthEvent.SAID_READY: Health.READY,
    HealthEvent.SAID_DRAINING: Health.DRAINING,
    HealthEvent.SAID_FAILED: Health.FAILED,
}

TRANSITIONS: Final[dict[tuple[Health, HealthEvent], Health]] = {
    **{(state, event): said for state in Health for event, said in _SAYS.items()},
    (Health.READY, HealthEvent.STREAM_LOST): Health.SUSPECT,
    (Health.READY, HealthEvent.REQUEST_FAILED): Health.SUSPECT,
    (Health.READY, HealthEvent.BREAKER_OPENED): Health.SUSPECT,
    (Health.SUSPECT, HealthEvent.HELD_OUT): Health.READY,
    (Health.SUSPECT, HealthEvent.SILENT): Health.FAILED,
    (Health.STARTING, HealthEvent.STREAM_LOST): Health.UNKNOWN,
    (Health.DRAINING, HealthEvent.STREAM_LOST): Health.FAILED,
}

EVENT_OF_PHASE: Final[dict[worker_pb2.Phase, HealthEvent]] = {
    worker_pb2.PHASE_STARTING: HealthEvent.SAID_STARTING,
    worker_pb2.PHASE_READY: HealthEvent.SAID_READY,
    worker_pb2.PHASE_DRAINING: HealthEvent.SAID_DRAINING,
    worker_pb2.PHASE_FAILED: HealthEvent.SAID_FAILED,
}
"""A phase that is not here (a later protocol's) says nothing."""


def after(state: Health, event: HealthEvent) -> Health:
    return TRANSITIONS.get((state, event), state)
