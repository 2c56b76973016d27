"""Whether a stream was within its objective.

Problem: an objective is about what clients see, and some of what they see is no token at all: a refusal, a stream that
broke off, a wait that they gave up.  Idea: one verdict a stream and objective, of three values: met, missed, and not to
be told (None), which is counted nowhere.
Trade-off: an answer that is not streamed shows its client no first token, so it is never judged.
Invariant: what the client did wrong, or did not wait for within the limit, is never held against the service.
"""

from dataclasses import dataclass
from typing import Final

from inferplane_api.proto.worker_pb2 import (
    OUTCOME_BAD_REQUEST,
    OUTCOME_DEADLINE,
    OUTCOME_ENGINE_ERROR,
    OUTCOME_ENGINE_LOST,
    OUTCOME_OK,
    OUTCOME_REFUSED,
    Outcome,
)

FAULTS: Final = frozenset({OUTCOME_ENGINE_ERROR, OUTCOME_ENGINE_LOST, OUTCOME_REFUSED, OUTCOME_DEADLINE})
_CLIENT_ERROR: Final = 400
_SERVER_ERROR: Final = 500
_BUSY: Final = 429


@dataclass(frozen=True, slots=True)
class Course:
    """What became of one stream; moments in seconds of one clock."""

    outcome: Outcome
    status: int
    """HTTP status of the answer that a worker gave; 0 when none did."""
    begun: float
    first: float | None
    """When the first piece of the answer came."""
    last: float
    pieces: int
    over: float

    @property
    def clients_fault(self) -> bool:
        refused = _CLIENT_ERROR <= self.status < _SERVER_ERROR and self.status != _BUSY
        return refused or self.outcome == OUTCOME_BAD_REQUEST

    @property
    def answered(self) -> bool:
        return self.first is not None and self.status < _CLIENT_ERROR


@dataclass(frozen=True, slots=True)
class Verdict:
    """Met, missed, or None where it cannot be told."""

    ttft: bool | None
    tpot: bool | None

    @property
    def both(self) -> bool | None:
        """Everything that can be told was met."""
        told = [each for each in (self.ttft, self.tpot) if each is not None]
        return all(told) if told else None


def judge(course: Course, *, ttft_s: float, tpot_s: float) -> Verdict:
    """Hold a stream against its limits, in seconds."""
    if course.clients_fault:
        return Verdict(None, None)
    return Verdict(_ttft(course, ttft_s), _tpot(course, tpot_s))


def _ttft(course: Course, limit_s: float) -> bool | None:
    if course.answered and course.first is not None:
        return course.first - course.begun <= limit_s
    if course.outcome in FAULTS or course.over - course.begun > limit_s:
        return False
    return None


def _tpot(course: Course, limit_s: float) -> bool | None:
    if not course.answered or course.first is None:
        return None
    if course.outcome in FAULTS:
        return False
    if course.pieces < 2 or (course.outcome != OUTCOME_OK and course.last == course.first):  # noqa: PLR2004 - a gap needs two
        return None
    return (course.last - course.first) / (course.pieces - 1) <= limit_s
