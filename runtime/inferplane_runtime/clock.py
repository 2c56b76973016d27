"""Time as something that is handed in.

Durations and order come from a monotonic clock; the wall clock is for display and for records that outlive a process.
Code that decides takes `now` as a value; code that waits takes a `Clock`, and tests give it a `FakeClock`.
"""

import time
from typing import Protocol


class Clock(Protocol):
    """Seconds since some moment, never going back; and seconds since 1970."""

    def monotonic(self) -> float: ...

    def wall(self) -> float: ...


class SystemClock:
    """The machine's clocks."""

    __slots__ = ()

    monotonic = staticmethod(time.monotonic)
    wall = staticmethod(time.time)


class FakeClock:
    """Clocks that stand still until a test moves them."""

    def __init__(self, *, monotonic: float = 1000.0, wall: float = 1_800_000_000.0) -> None:
        self._monotonic = monotonic
        self._wall = wall

    def monotonic(self) -> float:
        return self._monotonic

    def wall(self) -> float:
        return self._wall

    def advance(self, seconds: float) -> None:
        if seconds < 0:
            raise ValueError("time does not go back")
        self._monotonic += seconds
        self._wall += seconds
