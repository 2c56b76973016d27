"""How far routers believe what workers say they hold, by the requests of the window.

A router tests each prediction of a prefix hit and stops believing a worker whose events are wrong; each record says
whether its computing worker was believed, and if not, why.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Trust:
    """Requests of the window, and those whose computing worker was not believed."""

    requests: int = 0
    doubted: int = 0
    cause: str = ""
    """The most frequent reason, in the routers' word."""


def trust_of(causes: Iterable[str]) -> Trust:
    """Sum up one cause a request; "" stands for a worker that was believed."""
    counted = Counter(causes)
    believed = counted.pop("", 0)
    doubted = sum(counted.values())
    cause = min(counted, key=lambda name: (-counted[name], name)) if counted else ""
    return Trust(believed + doubted, doubted, cause)
