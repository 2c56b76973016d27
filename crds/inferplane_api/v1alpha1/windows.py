"""Windows of the week in which pools have narrower bounds: a floor before people come to work, a ceiling at night.

Times are UTC and whole minutes.  A window whose end is not after its start goes on past midnight, into the next day.
Where windows overlap, the highest floor and the lowest ceiling hold, within the pool's own; two that leave no number of
workers between them contradict each other, and both are named.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from itertools import combinations
from typing import Annotated, Final, Self

from pydantic import Field, model_validator

from inferplane_api.v1alpha1.pool_template import MAX_REPLICAS, PoolTemplate
from inferplane_api.v1alpha1.wire import Finding, WireModel, invalid

_DAY: Final = 1440
_WEEK: Final = 7 * _DAY
_EPOCH_DAY: Final = 3
"""1970 began on a Thursday."""
TimeOfDay = Annotated[str, Field(pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]$")]


class Day(StrEnum):
    MON = "Mon"
    TUE = "Tue"
    WED = "Wed"
    THU = "Thu"
    FRI = "Fri"
    SAT = "Sat"
    SUN = "Sun"


class Range(WireModel):
    """Workers of a pool; an absent field leaves the pool's own."""

    min_replicas: int | None = Field(default=None, ge=0, le=MAX_REPLICAS, description="At least so many.")
    max_replicas: int | None = Field(default=None, ge=1, le=MAX_REPLICAS, description="At most so many.")


class ScalingWindow(WireModel):
    name: str = Field(min_length=1, max_length=63, description="What it is called in plans and errors.")
    days: tuple[Day, ...] = Field(default=(), max_length=7, description="Days on which it begins; empty: every day.")
    start: TimeOfDay = Field(description="When it begins, UTC: `07:30`.")
    end: TimeOfDay = Field(description="When it ends, UTC; not after the start: on the next day.")
    prefill: Range = Field(default_factory=Range, description="Bounds of the prefill pool meanwhile.")
    decode: Range = Field(default_factory=Range, description="Bounds of the decode pool meanwhile.")

    @model_validator(mode="after")
    def _possible(self) -> Self:
        findings = [
            Finding(f"{role}.minReplicas", f"{low} exceeds maxReplicas {high}", "lower it or raise the other")
            for role, low, high in (
                ("prefill", self.prefill.min_replicas, self.prefill.max_replicas),
                ("decode", self.decode.min_replicas, self.decode.max_replicas),
            )
            if low is not None and high is not None and low > high
        ]
        if findings:
            raise invalid(*findings)
        return self

    def spans(self) -> list[tuple[int, int]]:
        """Return the minutes of the week, from Monday 00:00 UTC, that it holds: half-open, in order."""
        start, end = _minute(self.start), _minute(self.end)
        lasts = (end - start) % _DAY or _DAY
        begins = sorted(list(Day).index(day) * _DAY + start for day in (self.days or tuple(Day)))
        cut = [(begin, min(begin + lasts, _WEEK)) for begin in begins]
        past = [(0, begin + lasts - _WEEK) for begin in begins if begin + lasts > _WEEK]
        return past + cut

    def holds(self, wall_s: float) -> bool:
        """Say whether it holds at a moment: seconds since 1970."""
        minute = (int(wall_s // 60) + _EPOCH_DAY * _DAY) % _WEEK
        return any(begin <= minute < end for begin, end in self.spans())


def bounds(windows: Iterable[ScalingWindow], role: str, pool: PoolTemplate) -> tuple[int, int]:
    """Return the least and the most workers of a pool while all of `windows` hold."""
    ranges = [_range(window, role) for window in windows]
    least = max((each.min_replicas for each in ranges if each.min_replicas is not None), default=0)
    most = min((each.max_replicas for each in ranges if each.max_replicas is not None), default=pool.ceiling)
    least, most = max(least, pool.min_replicas), min(most, pool.ceiling)
    return least, max(least, most)


def contradictions(windows: Sequence[ScalingWindow], pools: Mapping[str, PoolTemplate | None]) -> list[Finding]:
    """Return what cannot be kept, with the names of the windows."""
    names = [window.name for window in windows]
    twice = sorted({name for name in names if names.count(name) > 1})
    findings = [Finding("scaling.windows", f"{name!r} appears twice", "rename one of the two") for name in twice]
    for role, pool in pools.items():
        findings += [
            Finding(
                f"scaling.windows.{index}.{role}.{field}",
                f"{window.name!r} asks for {count}, and the pool's own bound is {bound}",
                f"change it, or {fix}",
            )
            for index, window in enumerate(windows)
            for field, count, bound, fix in _against_pool(_range(window, role), role, pool)
        ]
        findings += [
            Finding(
                "scaling.windows",
                f"{one.name!r} and {other.name!r} overlap and leave no number of {role} workers",
                "let one end before the other begins, or let their bounds meet",
            )
            for one, other in combinations(windows, 2)
            if _apart(_range(one, role), _range(other, role)) and _overlap(one, other)
        ]
    return findings


def _against_pool(found: Range, role: str, pool: PoolTemplate | None) -> list[tuple[str, int, int, str]]:
    """Return bounds that the pool's own leave no room for: field, what it says, what it meets, and the fix."""
    low, high = found.min_replicas, found.max_replicas
    if pool is None:
        return []
    if low is not None and low > pool.ceiling:
        return [("minReplicas", low, pool.ceiling, f"raise {role}.maxReplicas")]
    if high is not None and high < pool.min_replicas:
        return [("maxReplicas", high, pool.min_replicas, f"lower {role}.minReplicas")]
    return []


def _range(window: ScalingWindow, role: str) -> Range:
    return window.prefill if role == "prefill" else window.decode


def _apart(one: Range, other: Range) -> bool:
    def above(low: Range, high: Range) -> bool:
        return low.min_replicas is not None and high.max_replicas is not None and low.min_replicas > high.max_replicas

    return above(one, other) or above(other, one)


def _overlap(one: ScalingWindow, other: ScalingWindow) -> bool:
    return any(
        begin < other_end and other_begin < end
        for begin, end in one.spans()
        for other_begin, other_end in other.spans()
    )


def _minute(text: str) -> int:
    return int(text[:2]) * 60 + int(text[3:])
