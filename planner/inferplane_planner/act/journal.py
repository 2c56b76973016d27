"""Decisions as JSON lines: what each was made from, and what it was.

The file is begun anew when it has grown too long, the one before is kept beside it; each file begins with a state of
its own, so `act.comparing` makes the plans of a file again from nothing but the file.  A decision that was taken over
from an earlier file's state cannot be: so a new file also means a planner that begins anew in the replay, and its first
plans may differ.  The first line of a process is marked for that reason.
Each line also says what the forecast knew before it: a process that begins takes it over from the last one's last line
(`act.resuming`), and the line of its own first decision says so to a replay.
A kill or a full disk leaves half a line.  It is taken away before the next is added: the two would be one line that
nobody can read, and a decision lost that was written whole.
"""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from inferplane_planner.act.records import decode, encode
from inferplane_planner.core.contract import Observations, Plan, Spec
from inferplane_planner.core.forecast import Learnt

_LONGEST: Final = 64 * 1024 * 1024
_LOOK: Final = 64 * 1024
_SERVICE: Final = '{"service": "'
"""What each line begins with."""


@dataclass(frozen=True, slots=True)
class Decided:
    """One step of one service, whole."""

    service: str
    now: float
    first: bool
    """Whether the state before it knew nothing but `forecast`."""
    observations: Observations
    spec: Spec
    plan: Plan
    forecast: Learnt | None = None
    """What the forecast knew before; None: nothing, or a record from before this was kept."""


class Journal:
    """Appends; `path` None keeps nothing."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._before: dict[str, str] | None = None
        """The last line of each service that an earlier process wrote; each is asked for once."""

    def last(self, service: str) -> Decided | None:
        """Return the last decision of an earlier process, once; None: there is none.

        To be asked for before a process writes its own first.  Raises OSError, ValueError (no JSON) and RecordError.
        """
        if self._before is None:
            self._before = _last_lines(self._path) if self._path is not None and self._path.exists() else {}
        line = self._before.pop(service, None)
        return None if line is None else decode(Decided, json.loads(line))

    def write(self, decided: Decided) -> None:
        """Add a line.  Raises OSError."""
        if self._path is None:
            return
        if self._path.exists() and self._path.stat().st_size > _LONGEST:
            self._path.replace(self._path.with_suffix(".old.jsonl"))
        with self._path.open("a+b") as file:
            file.truncate(_end_of_lines(file))
            file.write(json.dumps(encode(decided)).encode() + b"\n")


def _end_of_lines(file: BinaryIO) -> int:
    """Return where the last line that was written whole ends; backwards, since it is nearly always the file's end."""
    end = file.seek(0, os.SEEK_END)
    while end > 0:
        begin = max(0, end - _LOOK)
        file.seek(begin)
        found = file.read(end - begin).rfind(b"\n")
        if found >= 0:
            return begin + found + 1
        end = begin
    return 0


def _last_lines(path: Path) -> dict[str, str]:
    """Find them without reading every line as JSON, which would take seconds; one that was cut short does not count."""
    found = dict[str, str]()
    with path.open(encoding="utf-8") as file:
        for line in file:
            begin, _, _ = line.partition('", "now": ')
            if line.startswith(_SERVICE) and line.endswith("}\n"):
                found[json.loads(begin.removeprefix(_SERVICE[:-1]) + '"')] = line
    return found


def read(path: Path) -> Iterator[Decided]:
    """Yield the decisions of a file.  Raises OSError and RecordError."""
    with path.open(encoding="utf-8") as file:
        for line in file:
            yield decode(Decided, json.loads(line))
