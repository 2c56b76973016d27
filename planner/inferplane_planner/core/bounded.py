"""Estimates held within bounds without spoiling what they say together.

Problem.  An estimate of several terms is certain of their sum and not of each.  Cutting one off at its bound moves the
sum, and the next observation makes up for that with the others, on and on until they too are at a bound.
Idea.  What is beyond a bound is put on it, and the others follow as they covary with it: the estimate under the
condition that this one is known to be there.  Then the next that is beyond, with those already put down held.
Trade-off.  One after the other, furthest first, is the nearest point for two terms and close to it for more.
Invariant.  All values end within the bounds.
"""

import numpy as np

from inferplane_planner.core.demand import Floats


def within(values: Floats, covariance: Floats, low: float, high: float) -> Floats:
    """Return float64[n] within the bounds, the nearest by what `covariance`, float64[n, n], is sure of."""
    found, free = values.astype(np.float64), covariance.astype(np.float64)
    for _ in range(found.size):
        out = np.maximum(found - high, low - found)
        at = int(out.argmax())
        if out[at] <= 0.0 or free[at, at] <= 0.0:
            break
        held = free[:, at] / free[at, at]
        found = found + held * (min(high, max(low, float(found[at]))) - found[at])
        free = free - np.outer(held, free[at])
    return np.clip(found, low, high)
