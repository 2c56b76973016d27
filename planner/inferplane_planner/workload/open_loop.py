"""Open loop: arrivals come when they come, whatever became of those before."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from inferplane_planner.workload.arrivals import Process
from inferplane_planner.workload.lengths import Lengths
from inferplane_planner.workload.prompts import Prompt, Request

if TYPE_CHECKING:
    from collections.abc import Iterator


class Shape(Protocol):
    """Draws what a request asks; `number` is unique and may name what nobody shares."""

    def prompt(self, rng: np.random.Generator, *, number: int, at_s: float) -> Prompt: ...


@dataclass(frozen=True, slots=True)
class Ends:
    """When a workload ends: by time, by number, or never (both None)."""

    after_s: float | None = None
    requests: int | None = None

    def reached(self, number: int, at_s: float) -> bool:
        return (self.requests is not None and number >= self.requests) or (
            self.after_s is not None and at_s >= self.after_s
        )


class OpenLoop:
    """Requests of one shape, drawn from a process."""

    def __init__(
        self, process: Process, shape: Shape, outputs: Lengths, *, seed: int, ends: Ends | None = None
    ) -> None:
        arrivals, contents = np.random.SeedSequence(seed).spawn(2)
        self._times: Iterator[float] = process.times(np.random.default_rng(arrivals))
        self._rng = np.random.default_rng(contents)
        self._shape = shape
        self._outputs = outputs
        self._ends = ends or Ends()
        self._number = 0
        self._next_s: float | None = next(self._times)
        self._end_if_due()

    def peek(self) -> float | None:
        return self._next_s

    def take(self) -> Request:
        if self._next_s is None:
            raise LookupError("the workload has ended")
        at_s, number = self._next_s, self._number
        prompt = self._shape.prompt(self._rng, number=number, at_s=at_s)
        request = Request(number, at_s, prompt, self._outputs.draw(self._rng))
        self._number += 1
        self._next_s = next(self._times)
        self._end_if_due()
        return request

    def finished(self, request: Request, at_s: float) -> None:
        """Change nothing: nobody waits."""

    def _end_if_due(self) -> None:
        if self._next_s is not None and self._ends.reached(self._number, self._next_s):
            self._next_s = None
