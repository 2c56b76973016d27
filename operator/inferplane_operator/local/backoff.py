"""When a child that ended is started again: exponentially later, with jitter, and at once again after a healthy time.

Pure values: the clock and the random source are the caller's.  A child that ran for `healthy_after_s` has earned a
clean slate; one that keeps dying sooner is *crash-looping* after `loop_after` deaths in a row, which is what status
shows and what `up` gives up on.
"""

from dataclasses import dataclass, replace
from random import Random


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """Times in seconds."""

    first_s: float = 0.5
    """Delay before the first restart."""
    limit_s: float = 30.0
    """Longest delay."""
    factor: float = 2.0
    jitter: float = 0.2
    """Delays are drawn from 1 +- jitter times the nominal one: children that died together do not start together."""
    healthy_after_s: float = 60.0
    """A child that lived this long starts again from `first_s`."""
    loop_after: int = 3
    """Deaths in a row that make a crash loop."""


@dataclass(frozen=True, slots=True)
class RestartHistory:
    """What a child's past says about its next start."""

    restarts: int = 0
    """Every restart since the child was made."""
    deaths_in_a_row: int = 0
    """Deaths without a healthy time between them."""

    def after_death(self, policy: RestartPolicy, *, lived_s: float) -> "RestartHistory":
        in_a_row = 1 if lived_s >= policy.healthy_after_s else self.deaths_in_a_row + 1
        return replace(self, restarts=self.restarts + 1, deaths_in_a_row=in_a_row)

    def crash_looping(self, policy: RestartPolicy) -> bool:
        return self.deaths_in_a_row >= policy.loop_after


def restart_delay(policy: RestartPolicy, history: RestartHistory, rng: Random) -> float:
    """Seconds until a child with this history is started again."""
    nominal = policy.first_s
    for _ in range(min(history.deaths_in_a_row - 1, 64)):
        nominal = min(nominal * policy.factor, policy.limit_s)
    return min(nominal, policy.limit_s) * rng.uniform(1.0 - policy.jitter, 1.0 + policy.jitter)
