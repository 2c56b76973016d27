"""Figures that tests come across: noted with commit and machine, never asserted, since machines are shared."""

import json
import os
import platform
import subprocess
import time
from collections.abc import Iterable, Sequence
from typing import Final

from e2e.cluster.places import REPOSITORY, RUNS

FIGURES: Final = RUNS / "figures.jsonl"
_noted: Final[list[tuple[str, float]]] = []


def note(what: str, value: float) -> None:
    """Add a figure to the file of this checkout."""
    _noted.append((what, value))
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=REPOSITORY, capture_output=True, text=True, check=True
    ).stdout.strip()
    machine = f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    line = {"what": what, "value": round(value, 3), "commit": commit, "machine": machine, "at": int(time.time())}
    RUNS.mkdir(parents=True, exist_ok=True)
    with FIGURES.open("a") as file:
        file.write(json.dumps(line) + "\n")


def add(figures: Iterable[Sequence[object]]) -> None:
    """Take over what another lane has noted, as it comes out of a message."""
    _noted.extend((str(what), float(str(value))) for what, value in figures)


def noted() -> Sequence[tuple[str, float]]:
    """Return what this process has noted or taken over."""
    return tuple(_noted)
