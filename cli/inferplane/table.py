"""A table before it is drawn."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Table:
    heads: tuple[str, ...]
    rows: Sequence[Sequence[str]]
    right: frozenset[int] = frozenset()
    """Columns of numbers, which are aligned to the right."""
