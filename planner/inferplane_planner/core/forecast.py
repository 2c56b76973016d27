"""How many requests will come: level, trend and season, with a band that says how wrong it has been.

Counts per interval are followed by Holt's two exponential averages after the season is divided out; the season is the
mean share of each part of a day (or whatever repeats), learned slowly and only once a whole one was seen.  The band is
the quantile of the forecast's own past errors at the same distance, so a forecaster that is bad says so.
Trade-off: a step of load is followed within a few intervals, not foreseen.
Source: C. C. Holt (1957); P. R. Winters, Forecasting Sales by Exponentially Weighted Moving Averages (1960).
"""

import math
from collections import deque
from dataclasses import dataclass, field, replace

from inferplane_planner.core.errors import PlanningError

_ERRORS_KEPT = 240
_FEW_ERRORS = 70
_NINE_IN_TEN = 1.28
_CLOSE = 1e-6


@dataclass(frozen=True, slots=True)
class Settings:
    """Lengths in seconds; weights are shares of the newest value."""

    interval_s: float = 15.0
    level: float = 0.35
    trend: float = 0.08
    season_s: float | None = 86_400.0
    season_parts: int = 96
    season: float = 0.3
    longest_gap: int = 20
    """Intervals without news after which what was learned of level and trend is forgotten."""

    def __post_init__(self) -> None:
        if not self.interval_s > 0:
            raise PlanningError("forecast.interval", f"{self.interval_s:g} s is not a length", "give one above 0")
        if self.season_s is not None and self.season_s < self.season_parts * self.interval_s:
            raise PlanningError(
                "forecast.season",
                f"{self.season_parts} parts of {self.season_s:g} s are shorter than an interval",
                "use fewer parts",
            )


@dataclass(frozen=True, slots=True)
class Forecast:
    """Requests a second: the likeliest, and what nine in ten past errors did not exceed."""

    rate_per_s: float
    high_per_s: float


@dataclass(frozen=True, slots=True)
class Learnt:
    """All that a forecaster knows, as a value that can be written down; rates are requests a second."""

    settings: Settings
    level: float
    trend: float
    last: int
    """Number of the newest interval that was observed."""
    shares: tuple[float, ...] = ()
    """Mean rate of each part of the season; NaN where it was not seen."""
    errors: tuple[float, ...] = ()


@dataclass(slots=True)
class Forecaster:
    """Is told counts in order of time; forgets nothing that it needs and keeps nothing else."""

    settings: Settings = field(default_factory=Settings)
    _level: float | None = None
    _trend: float = 0.0
    _last: int | None = None
    _shares: list[float] = field(default_factory=list[float])
    _errors: deque[float] = field(default_factory=lambda: deque[float](maxlen=_ERRORS_KEPT))

    def copy(self) -> "Forecaster":
        """Return one that knows the same and is told of other things."""
        return replace(self, _shares=list(self._shares), _errors=self._errors.copy())

    @property
    def learnt(self) -> Learnt | None:
        """What it knows; None: nothing yet."""
        if self._level is None or self._last is None:
            return None
        return Learnt(self.settings, self._level, self._trend, self._last, tuple(self._shares), tuple(self._errors))

    @classmethod
    def of(cls, learnt: Learnt) -> "Forecaster":
        """Return one that knows what another did."""
        errors = deque[float](learnt.errors, maxlen=_ERRORS_KEPT)
        return cls(learnt.settings, learnt.level, learnt.trend, learnt.last, list(learnt.shares), errors)

    def observe(self, at_s: float, requests: int) -> None:
        """Take the count of the interval that ended at `at_s`; older or doubled news is left out."""
        interval = math.floor(at_s / self.settings.interval_s + 0.5)
        if requests < 0 or (self._last is not None and interval <= self._last):
            return
        self._note_gap(interval)
        rate = requests / self.settings.interval_s
        self._judge(interval, rate)
        self._follow(interval, rate)
        self._last = interval

    @property
    def level_per_s(self) -> float:
        """Return the rate that is followed at present; 0 before anything was observed."""
        return self._level or 0.0

    def at(self, at_s: float) -> Forecast:
        """Forecast the rate at a moment."""
        if self._level is None or self._last is None:
            return Forecast(0.0, 0.0)
        interval = math.floor(at_s / self.settings.interval_s + 0.5)
        ahead = max(0, interval - self._last)
        # A trend does not go on for ever: its weight falls with distance.
        base = max(0.0, self._level + self._trend * _damped(ahead))
        rate = base * self._share(interval)
        return Forecast(rate, rate + self._margin())

    def highest(self, from_s: float, to_s: float) -> Forecast:
        """Forecast the highest rate between two moments."""
        steps = max(1, min(64, math.ceil((to_s - from_s) / self.settings.interval_s)))
        each = [self.at(from_s + (to_s - from_s) * step / steps) for step in range(steps + 1)]
        return max(each, key=lambda forecast: forecast.high_per_s)

    def _note_gap(self, interval: int) -> None:
        if self._last is not None and interval - self._last > self.settings.longest_gap:
            self._level, self._trend = None, 0.0

    def _judge(self, interval: int, rate: float) -> None:
        """Compare with what was expected one interval ago."""
        if self._level is None:
            return
        expected = max(0.0, self._level + self._trend) * self._share(interval)
        self._errors.append(rate - expected)

    def _follow(self, interval: int, rate: float) -> None:
        settings, share = self.settings, self._share(interval)
        plain = rate / share if share > 0 else rate
        if self._level is None:
            self._level = plain
        else:
            before = self._level
            self._level = max(0.0, settings.level * plain + (1.0 - settings.level) * (before + self._trend))
            self._trend = settings.trend * (self._level - before) + (1.0 - settings.trend) * self._trend
        self._learn_season(interval, rate)

    def _learn_season(self, interval: int, rate: float) -> None:
        settings = self.settings
        if settings.season_s is None:
            return
        if not self._shares:
            self._shares = [math.nan] * settings.season_parts
        part = self._part(interval)
        before = self._shares[part]
        self._shares[part] = rate if math.isnan(before) else settings.season * rate + (1 - settings.season) * before

    def _share(self, interval: int) -> float:
        """Return what this part of the season is relative to the whole; 1 before a whole one was seen."""
        known = [share for share in self._shares if not math.isnan(share)]
        if len(known) < self.settings.season_parts:
            return 1.0
        mean = sum(known) / len(known)
        return self._shares[self._part(interval)] / mean if mean > 0 else 1.0

    def _part(self, interval: int) -> int:
        season_s = self.settings.season_s or 1.0
        within = (interval * self.settings.interval_s) % season_s
        return min(self.settings.season_parts - 1, int(within / season_s * self.settings.season_parts))

    def _margin(self) -> float:
        """Return what one in ten errors exceeds; a single step of load is a handful of errors, and not one in ten."""
        ordered = sorted(self._errors)
        exceeding = int(0.1 * max(len(ordered), _FEW_ERRORS))
        seen = max(0.0, ordered[-1 - exceeding]) if len(ordered) > exceeding else 0.0
        return max(seen, self._unseen())

    def _unseen(self) -> float:
        """Return what one in ten counts would be off by, as few as were compared: at random at least, or as those."""
        if self._errors and max(map(abs, self._errors)) <= _CLOSE * self.level_per_s:
            return 0.0  # they come like clockwork
        at_random = self.level_per_s / self.settings.interval_s
        so_far = sum(error**2 for error in self._errors) / max(1, len(self._errors))
        few = max(0.0, 1.0 - len(self._errors) / _FEW_ERRORS)
        return _NINE_IN_TEN * math.sqrt(max(at_random, so_far)) * few


def _damped(ahead: int, keep: float = 0.95) -> float:
    """Return the sum of 1, keep, keep ** 2, ... over `ahead` intervals."""
    return float((1.0 - keep**ahead) / (1.0 - keep))
