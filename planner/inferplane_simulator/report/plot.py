"""Line plots as inline SVG: no script, no asset; colours come from the page, so that dark is dark."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

_WIDTH, _HEIGHT = 720, 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 12, 12, 32
_TICKS: Final = 4
COLOURS: Final = 8
"""Classes `c0` to `c7` of the page; more lines repeat them dashed."""


@dataclass(frozen=True, slots=True)
class Line:
    """`values` at equal distances of `width_s`; NaN is a gap."""

    name: str
    width_s: float
    values: Sequence[float]

    @property
    def length_s(self) -> float:
        return self.width_s * len(self.values)


def plot(title: str, unit: str, lines: Sequence[Line], *, top: float | None = None) -> str:
    """Draw lines over time from 0 up; `top` fixes the upper end."""
    known = [value for line in lines for value in line.values if math.isfinite(value)]
    high = top if top is not None else _nice(max(known, default=1.0))
    length_s = max((line.length_s for line in lines), default=1.0) or 1.0
    marks = "".join(_tick(share, high, length_s, unit) for share in (at / _TICKS for at in range(_TICKS + 1)))
    paths = "".join(_path(number, line, high, length_s) for number, line in enumerate(lines))
    return (
        f'<figure><figcaption>{escape(title)}</figcaption><svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="{escape(title)} over time">{marks}{paths}</svg></figure>'
    )


def _tick(share: float, high: float, length_s: float, unit: str) -> str:
    y, x = _y(share * high, high), _x(share * length_s, length_s)
    return (
        f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{share * high:.3g}{escape(unit)}</text>'
        f'<text x="{x:.1f}" y="{_HEIGHT - 10}" text-anchor="middle">{_clock(share * length_s)}</text>'
    )


def _path(number: int, line: Line, high: float, length_s: float) -> str:
    parts: list[str] = []
    pen = "M"
    for place, value in enumerate(line.values):
        if not math.isfinite(value):
            pen = "M"
            continue
        parts.append(f"{pen}{_x((place + 0.5) * line.width_s, length_s):.1f} {_y(min(value, high), high):.1f}")
        pen = "L"
    dashed = " dashed" if number >= COLOURS else ""
    return f'<path class="c{number % COLOURS}{dashed}" d="{" ".join(parts)}"><title>{escape(line.name)}</title></path>'


def _x(at_s: float, length_s: float) -> float:
    return _LEFT + (_WIDTH - _LEFT - _RIGHT) * at_s / length_s


def _y(value: float, high: float) -> float:
    return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * value / high


def _nice(value: float) -> float:
    """Round up to 1, 2, 4 or 8 times a power of ten, so that quarters are round too."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next((power * step for step in (1.0, 2.0, 4.0, 8.0) if value <= power * step), power * 10.0)


def _clock(seconds: float) -> str:
    if seconds < 600:  # noqa: PLR2004  # ten minutes: below, seconds say more
        return f"{seconds:.0f}s"
    return f"{seconds / 60:.0f}m" if seconds < 36_000 else f"{seconds / 3600:.1f}h"  # noqa: PLR2004  # ten hours
