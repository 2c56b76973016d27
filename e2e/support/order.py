"""In which order the files of tests come, and so which of them a lane takes next.

Problem: two lanes, each with a cluster of its own, take whole files from one queue; a long one that comes last leaves
the other lane idle, and what needs a cluster without our operator cannot come behind what has installed it.
Idea: stages first, and within a stage the longest files first.  A lane only goes forward in the queue, so whatever it
gets, its cluster is as that file needs it.  Real engines, whose start takes all CPUs, come when the fifty streams of
the other lane are over.  Trade-off: which files are long is written down here, not measured.
Invariant: all tests of a file are together, and every lane comes to the same order.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import pytest

_LONGEST_FIRST: Final = (
    "test_the_whole_life",
    "test_the_planner_moves_replicas",
    "test_rbac",
    "test_chart_releases",
    "test_real_engines",
    "test_the_tutorial_is_followed",
    "test_nothing_is_left",
    "test_adapters_come_and_go",
    "test_routers_find_workers",
    "test_chart_values_are_taken_by_an_api_server",
)
_BUILDS_IMAGES, _NO_OPERATOR, _OPERATOR, _COUNTED = range(4)


def put_in_order(items: list[pytest.Item]) -> None:
    """Sort what was collected."""
    stages = _stages(items)
    items.sort(key=lambda item: (stages[_file(item)], _rank(item.path.stem), _file(item)))


def _stages(items: Sequence[pytest.Item]) -> Mapping[str, int]:
    """Return the last stage that any test of a file needs."""
    found: dict[str, int] = {}
    for item in items:
        name = _file(item)
        found[name] = max(found.get(name, _BUILDS_IMAGES), _stage(item))
    return found


def _stage(item: pytest.Item) -> int:
    """Say what a test needs to be there, or not to be there.

    What builds images comes before a cluster: from inside its network nothing can be downloaded.  What is counted
    beside the other tests comes when they are over.
    """
    needed: Sequence[str] = getattr(item, "fixturenames", ())
    if "docker" in needed:
        return _BUILDS_IMAGES
    if "counted" in needed:
        return _COUNTED
    return _OPERATOR if "release" in needed else _NO_OPERATOR


def _rank(name: str) -> int:
    return _LONGEST_FIRST.index(name) if name in _LONGEST_FIRST else len(_LONGEST_FIRST)


def _file(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]
