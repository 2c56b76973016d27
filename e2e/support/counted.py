"""The operator's writes, counted by `e2e.operator_scale` in a process that runs beside the tests."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from e2e.cluster.places import REPOSITORY

_FEW: Final = ("--services", "25", "--idle", "20", "--edits", "5")


@dataclass(frozen=True, slots=True)
class Counted:
    """A run that has begun."""

    process: subprocess.Popen[bytes]
    folder: Path

    @classmethod
    def begin(cls, folder: Path) -> "Counted":
        """Begin in a folder for what it says; the run ends with the tests, whatever becomes of them."""
        command = [sys.executable, "-m", "e2e.operator_scale", *_FEW, "--log", str(folder / "operator.log")]
        with (folder / "said").open("wb") as said, (folder / "errors").open("wb") as errors:
            return cls(subprocess.Popen(command, cwd=REPOSITORY, stdout=said, stderr=errors), folder)

    def result(self, limit_s: float) -> dict[str, Any]:
        """Wait for the end and return what was counted."""
        code = self.process.wait(limit_s)
        assert code == 0, (self.folder / "errors").read_text()
        found: dict[str, Any] = json.loads((self.folder / "said").read_text().splitlines()[-1])
        return found

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()  # an exception there, which takes its cluster down
            self.process.wait(60)
