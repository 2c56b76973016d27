"""Lines in files of a bounded folder: the oldest go when there is too much.

Problem: several processes write, each may end at any time, and a folder must not grow for ever.
Idea: each process has files of its own, named by what is in them, its pid and a number; a full one is followed by the
next, and whoever begins one removes the oldest of all until the folder is within its bound.
Invariant: a folder holds at most its bound and one file more for each process that writes.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

_PARTS: Final = 8


class RolledFile:
    """Appends lines.  Every method may raise OSError."""

    def __init__(self, folder: Path, name: str, *, most_bytes: int, pid: int | None = None) -> None:
        self._folder = folder
        self._stem = f"{name}-{os.getpid() if pid is None else pid}"
        self._name = name
        self._most = most_bytes
        self._number = 0
        self._left = 0

    def append(self, lines: Iterable[str]) -> None:
        """Write lines in one piece."""
        text = "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")
        if not text:
            return
        if self._left <= 0:
            self._begin()
        self._left -= len(text)
        with self._path.open("ab") as file:
            file.write(text)

    @property
    def _path(self) -> Path:
        return self._folder / f"{self._stem}-{self._number:04}.jsonl"

    def _begin(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        self._number += 1
        while self._path.exists():
            self._number += 1
        self._left = max(1, self._most // _PARTS)
        files = sorted(self._folder.glob(f"{self._name}-*.jsonl"), key=lambda it: it.stat().st_mtime)
        total = sum(it.stat().st_size for it in files)
        for file in files:
            if total <= self._most - self._left:
                break
            total -= file.stat().st_size
            file.unlink(missing_ok=True)
