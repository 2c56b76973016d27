"""Decisions as JSON lines: what each was made from, and what it was.

The file is begun anew when it has grown too long, the one before is kept beside it; each file begins with a state of
its own, so `act.comparing` makes the plans of a file again from nothing but the file.  A decision that was taken over
from an earlier file's state cannot be: so a new file also means a planner that begins anew in the replay, and its first
plans may differ.  The first line of a process is marked for that reason.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from inferplane_planner.act.records import decode, encode
from inferplane_planner.core.contract import Observations, Plan, Spec

_LONGEST: Final = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Decided:
    """One step of one service, whole."""

    service: str
    now: float
    first: bool
    """Whether the state before it was an empty one."""
    observations: Observations
    spec: Spec
    plan: Plan


class Journal:
    """Appends; `path` None keeps nothing."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def write(self, decided: Decided) -> None:
        """Add a line.  Raises OSError."""
        if self._path is None:
            return
        if self._path.exists() and self._path.stat().st_size > _LONGEST:
            self._path.replace(self._path.with_suffix(".old.jsonl"))
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(encode(decided)) + "\n")


def read(path: Path) -> Iterator[Decided]:
    """Yield the decisions of a file.  Raises OSError and RecordError."""
    with path.open(encoding="utf-8") as file:
        for line in file:
            yield decode(Decided, json.loads(line))
