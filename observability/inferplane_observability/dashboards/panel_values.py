"""Dashboards as values: what is asked and how it is shown, before any library makes JSON of it.

Problem: dashboards that are drawn by hand ask for metrics that nobody serves, and nobody reads their JSON in a review.
Idea: boards are frozen values whose queries are made from the catalogue's specs, so a renamed metric breaks a type
check and not a night on call; one module turns them into JSON.
Trade-off: only what these values can say can be drawn.
Invariant: every panel has a unit and says what it shows; widths of a line add up to at most 24.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

GRID: Final = 24
HEIGHT: Final = 8


class Show(StrEnum):
    LINES = "timeseries"
    NUMBER = "stat"


class Good(StrEnum):
    """In which direction a number is good, for its colour."""

    NEITHER = "neither"
    HIGH = "high"
    LOW = "low"


@dataclass(frozen=True, slots=True)
class Query:
    expr: str
    legend: str = ""
    objective: bool = False
    """Drawn as the limit that the other lines are held against."""


@dataclass(frozen=True, slots=True)
class Panel:
    title: str
    meaning: str
    unit: str
    queries: tuple[Query, ...]
    show: Show = Show.LINES
    width: int = 8
    good: Good = Good.NEITHER
    bounds: tuple[float, float] | None = None
    """Where a number turns from bad to doubtful and from doubtful to good, or the other way round."""
    least: float | None = 0.0
    most: float | None = None


@dataclass(frozen=True, slots=True)
class Row:
    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True, slots=True)
class Board:
    uid: str
    title: str
    meaning: str
    rows: tuple[Row, ...]
    of_services: bool = True
    """Whether a service can be chosen."""

    @property
    def queries(self) -> tuple[Query, ...]:
        return tuple(query for row in self.rows for panel in row.panels for query in panel.queries)
