"""How much more a load may be than the few requests say that it is known by.

Problem.  A service that begins is known by the first requests that were answered, and those are the short ones; prompts
differ so much that the mean work of thirty is off by a third one time in six.  A plan that takes it for the truth is
too small until a start-up time after the truth is known.
Idea.  The work of a request is taken as high as nine in ten such samples would not have hidden.
Trade-off.  A service pays for a few more workers in its first minutes.  A sample of `_ENOUGH` counts as the truth: what
is left of its error is smaller than what else is unknown, and would be paid for for ever.
Invariant.  At least 1; exactly 1 for requests that are all alike, and for a full sample.
"""

import math
from typing import Final

from inferplane_planner.core.demand import Demand, Floats
from inferplane_planner.core.predict import Pair

_ENOUGH: Final = 256
_NINE_IN_TEN: Final = 1.28


def scarcity(sample: Demand, engines: Pair) -> float:
    """Return the factor on the load."""
    count = sample.output.size
    few = max(0.0, 1.0 - count / _ENOUGH)
    spread = max(_variation(engines.prefill.prefill_s(sample.uncached, sample.cached)), _variation(sample.output))
    return 1.0 + _NINE_IN_TEN * spread * few / math.sqrt(count)


def _variation(values: Floats) -> float:
    """Return the standard deviation relative to the mean."""
    return float(values.std()) / float(values.mean())
