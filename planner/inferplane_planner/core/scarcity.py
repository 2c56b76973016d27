"""How much more a load may be than the few requests say that it is known by.

Problem.  A service that begins is known by the first requests that were answered, and those are the short ones; prompts
differ so much that the mean work of thirty is off by a third one time in six.  A plan that takes it for the truth is
too small until a start-up time after the truth is known.
Idea.  The work of a request is taken as high as nine in ten such samples would not have hidden: that of its prompt and
that of its answer, each for itself.  When lengths shift, old and new requests are in the sample together, and prompts
that become short vary more the fewer of the long ones are left: doubting answers for it would ask for workers that are
given back as soon as the last of them has left the sample.  What a kind of work may be by its own mixture is at most a
few hundredths more than by the longer of both lengths.
Trade-off.  A service pays for a few more workers in its first minutes.  A sample of `_ENOUGH` counts as the truth: what
is left of its error is smaller than what else is unknown, and would be paid for for ever.
Invariant.  At least 1; exactly 1 for requests that are all alike, and for a full sample.
"""

import math
from dataclasses import dataclass, replace
from typing import Final

from inferplane_planner.core.demand import Demand, Floats
from inferplane_planner.core.predict import Pair

_ENOUGH: Final = 256
_NINE_IN_TEN: Final = 1.28


@dataclass(frozen=True, slots=True)
class Scarcity:
    """Factors on the load of both kinds of work."""

    prompts: float = 1.0
    answers: float = 1.0

    def at(self, sample: Demand, rate_per_s: float) -> Demand:
        """Return the requests of a sample, so often that what they may hide is in it."""
        often = sample.at(rate_per_s * self.prompts)
        return replace(often, answers_each=self.answers / self.prompts)


def scarcity(sample: Demand, engines: Pair) -> Scarcity:
    """Return how far a sample is to be doubted."""
    few = max(0.0, 1.0 - sample.output.size / _ENOUGH)
    off = _NINE_IN_TEN * few / math.sqrt(sample.output.size)
    prompts = engines.prefill.prefill_s(sample.uncached, sample.cached)
    return Scarcity(1.0 + off * _variation(prompts), 1.0 + off * _variation(sample.output))


def _variation(values: Floats) -> float:
    """Return the standard deviation relative to the mean."""
    return float(values.std()) / float(values.mean())
