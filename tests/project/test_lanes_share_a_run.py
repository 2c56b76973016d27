"""Lanes of tests come to one order by themselves, and what tests share is made in one of them."""

from dataclasses import dataclass, field

import pytest

import lanes


@dataclass(eq=False)
class Collected:
    """As much of a collected test as its place depends on."""

    nodeid: str
    marks: dict[str, pytest.Mark] = field(default_factory=dict[str, pytest.Mark])

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        return self.marks.get(name)


def marked(nodeid: str, *marks: pytest.MarkDecorator) -> Collected:
    return Collected(nodeid, {each.name: each.mark for each in marks})


ENGINE, LAST, SLOW = pytest.mark.engine, pytest.mark.engine(last=True), pytest.mark.slow
COLLECTED = (
    marked("tests/api/test_a.py::test_one"),
    marked("tests/engine/test_b.py::test_kills", LAST, SLOW),
    marked("tests/engine/test_c.py::test_asks[a::b]", ENGINE, SLOW),
    marked("tests/stack/test_d.py::test_short"),
    marked("tests/stack/test_d.py::test_long", SLOW),
)


def order(*, in_lanes: bool) -> list[str]:
    items = list(COLLECTED)
    lanes.put_in_order(items, lanes=in_lanes)
    return [item.nodeid.rpartition("/")[2] for item in items]


def test_lanes_begin_with_engines_and_end_with_short_files() -> None:
    engines = ["test_c.py::test_asks[a::b]", "test_b.py::test_kills"]

    assert order(in_lanes=True) == [*engines, "test_d.py::test_short", "test_d.py::test_long", "test_a.py::test_one"]


def test_without_lanes_engines_come_last_and_all_else_as_collected() -> None:
    engines = ["test_c.py::test_asks[a::b]", "test_b.py::test_kills"]

    assert order(in_lanes=False) == ["test_a.py::test_one", "test_d.py::test_short", "test_d.py::test_long", *engines]


def test_a_file_is_one_piece_and_all_that_share_the_engines_are_one() -> None:
    assert [lanes.piece(item.nodeid) for item in COLLECTED] == [
        "tests/api/test_a.py",
        "tests/engine/",
        "tests/engine/",
        "tests/stack/test_d.py",
        "tests/stack/test_d.py",
    ]
