"""`value` leaves out only what makes a frozen dataclass slow."""

from dataclasses import replace

from inferplane_runtime.values import value


@value(frozen=True, slots=True)
class Point:
    x: int
    y: int = 0


@value(frozen=True, slots=True, eq=False)
class Place:
    x: int


def test_equality_and_hash_follow_the_fields() -> None:
    assert {Point(1), Point(1, 0), Point(2)} == {Point(1), Point(2)}


def test_without_equality_each_value_is_itself() -> None:
    assert len({Place(1), Place(1)}) == 2


def test_values_have_slots_and_can_be_replaced() -> None:
    assert not hasattr(Point(1), "__dict__")
    assert replace(Point(1), y=5) == Point(1, 5)
