"""What a simulator asks of a workload."""

from typing import Protocol

from inferplane_planner.workload.prompts import Request


class Workload(Protocol):
    """A source of requests in order of arrival.

    `peek` says when the next one comes (None: only after an answer, or never again), `take` takes it.  `finished` tells
    that an answer is complete; in a closed loop something may follow, never before that time.
    """

    def peek(self) -> float | None: ...

    def take(self) -> Request: ...

    def finished(self, request: Request, at_s: float) -> None: ...
