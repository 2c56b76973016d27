"""The operator's writes, counted by `e2e.operator_scale` in a process that runs beside the tests.

Where the tests run in several lanes one of them begins it, and any of them may want the result: what it says is in a
folder of all lanes, locked while it runs.  The lock belongs to the open file that is its output, so it is let go when
the process ends, however it ends.
"""

import fcntl
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from e2e.cluster.places import REPOSITORY
from e2e.support.waiting import until

_FEW: Final = ("--services", "25", "--idle", "20", "--edits", "5")


@dataclass(frozen=True, slots=True)
class Counted:
    """A run that has begun, here or in another lane."""

    folder: Path
    process: subprocess.Popen[bytes] | None = None

    @classmethod
    def begin(cls, folder: Path) -> Self:
        """Begin in a new folder for what it says; where the folder is there, another lane has begun."""
        try:
            folder.mkdir()
        except FileExistsError:
            return cls(folder)
        command = [sys.executable, "-m", "e2e.operator_scale", *_FEW, "--log", str(folder / "operator.log")]
        new = folder / "said.new"
        with new.open("wb") as said, (folder / "errors").open("wb") as errors:
            fcntl.flock(said, fcntl.LOCK_EX)
            process = subprocess.Popen(command, cwd=REPOSITORY, stdout=said, stderr=errors)
            new.rename(folder / "said")
        return cls(folder, process)

    def result(self, limit_s: float) -> dict[str, Any]:
        """Wait for the end and return what was counted."""
        until(self._ended, limit_s, what="the end of the counting")
        lines = (self.folder / "said").read_text().splitlines()
        assert lines, (self.folder / "errors").read_text()
        found: dict[str, Any] = json.loads(lines[-1])
        return found

    def end(self, *, patience_s: float) -> None:
        """End it if it was begun here, once it has ended by itself or patience has."""
        if self.process is None:
            return
        try:
            self.process.wait(patience_s)
        except subprocess.TimeoutExpired:
            self.process.terminate()  # an exception there, which takes its cluster down
            self.process.wait(60)

    def _ended(self) -> bool:
        try:
            with (self.folder / "said").open("rb") as said:
                fcntl.flock(said, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except (FileNotFoundError, BlockingIOError):
            return False
        return True
