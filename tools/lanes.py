"""Which tests run together, and in which order, where a run has several lanes (`pytest -n 2`).

Problem: most time of a run goes into waiting for processes to start, in one test after the other.
Idea: the lanes take files from one queue, those with slow tests first, so that all lanes end at about the same time.
The tests that share the one set of real engines are a single piece of work, and the first: their lane waits for the
engines to start while the other works on.  Without lanes they come last, and the engines start while all others run.
Invariant: a file is never split, so what its tests share is made once.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any, Final, Protocol, TypeVar

import pytest

ENGINES: Final = "tests/engine/"


class Collected(Protocol):
    """A test: what of it decides about its place."""

    @property
    def nodeid(self) -> str: ...

    @property
    def get_closest_marker(self) -> Callable[[str], pytest.Mark | None]: ...


_Item = TypeVar("_Item", bound=Collected)


def is_a_lane(config: pytest.Config) -> bool:
    """Return whether this process is one of several that share a run."""
    return hasattr(config, "workerinput")


def put_in_order(items: list[_Item], *, lanes: bool) -> None:
    """Sort what was collected; every lane comes to the same order."""
    slow = {piece(item.nodeid) for item in items if item.get_closest_marker("slow")}

    def place(item: Collected) -> tuple[int, bool]:
        name, engine = piece(item.nodeid), item.get_closest_marker("engine")
        breaks_engines = engine is not None and bool(engine.kwargs.get("last"))
        if name == ENGINES:
            return (0 if lanes else 3), breaks_engines
        return (1 if lanes and name in slow else 2), False

    items.sort(key=place)


def piece(nodeid: str) -> str:
    """Return the name of the piece of work that a test belongs to: what one lane does as a whole."""
    return ENGINES if nodeid.startswith(ENGINES) else nodeid.partition("::")[0]


def scheduler(config: pytest.Config, log: object) -> object:
    """Make what deals pieces to lanes, in the order of collection."""
    config.option.loadscopereorder = False
    made: Any = import_module("xdist.scheduler").LoadScopeScheduling(config, log)
    made._split_scope = piece  # noqa: SLF001 - what its own kinds differ in; it comes without types to derive from
    return made
