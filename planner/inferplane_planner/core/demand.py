"""What is asked of a service: how often, and what requests look like.

Lengths are kept as a sample of requests, not as means: service times are far from linear in them, and a percentile of
TTFT is made by the long ones.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inferplane_planner.core.errors import PlanningError

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Demand:
    """`rate_per_s` requests a second, of which the arrays are a sample: float64[n], tokens."""

    rate_per_s: float
    uncached: Floats
    """Prompt tokens to be computed, at the present hit rate."""
    cached: Floats
    """Prompt tokens before them that need not be."""
    output: Floats
    """Tokens of the answer."""
    held: Floats | None = None
    """Prompt tokens that the decode side holds already, and that are not transferred; None: none."""
    answers_each: float = 1.0
    """Answers that are decoded for each prompt; not 1 where the one kind of work is doubted more than the other."""

    def __post_init__(self) -> None:
        if not (np.isfinite(self.rate_per_s) and self.rate_per_s >= 0):
            raise PlanningError("rate", f"{self.rate_per_s} is not a rate", "give 0 or more requests a second")
        if not self.uncached.size:
            raise PlanningError("sample", "holds no request", "observe one first")
        for name, values, least in (
            ("uncached", self.uncached, 0.0),
            ("cached", self.cached, 0.0),
            ("output", self.output, 1.0),
        ):
            _check(name, values, self.uncached.size, least)

    @property
    def prompt(self) -> Floats:
        return self.uncached + self.cached

    @property
    def answers_per_s(self) -> float:
        return self.rate_per_s * self.answers_each

    @property
    def transferred(self) -> Floats:
        return self.prompt if self.held is None else np.maximum(0.0, self.prompt - self.held)

    def at(self, rate_per_s: float) -> "Demand":
        """Return the same requests, so often."""
        return Demand(rate_per_s, self.uncached, self.cached, self.output, self.held, self.answers_each)


def _check(name: str, values: "NDArray[Any]", size: int, least: float) -> None:
    if values.size != size:
        raise PlanningError(name, f"has {values.size} entries, the sample has {size}", "one for each request")
    if not bool(np.isfinite(values).all()) or float(values.min()) < least:
        raise PlanningError(name, f"holds a value that is not a number of at least {least:g}", "leave that request out")
