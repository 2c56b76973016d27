"""Values on hot paths: read-only for the type checkers, without the price of that at run time.

Problem: a frozen dataclass sets every field through `object.__setattr__`, a tenth of a microsecond each, and one
request makes values with a hundred fields between its first byte and its last.
Idea: `value` is `dataclass` to the type checkers and to whoever reads it; at run time it leaves `frozen` out.
Trade-off: an assignment that no checker has seen passes; use it where a value is made for every request or chunk.
Invariant: equality, hash and slots are those of a frozen dataclass.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass as value
else:
    from collections.abc import Callable
    from dataclasses import dataclass

    def value(*, frozen: bool, slots: bool, eq: bool = True) -> Callable[[type], type]:
        """Make a dataclass that is frozen by agreement only."""
        return dataclass(slots=slots, eq=eq, unsafe_hash=frozen and eq)


__all__ = ["value"]
