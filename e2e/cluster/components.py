"""One program of the cluster: started inside the enclosure, watched by pid, its output in a file."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from e2e.cluster.enclosure import Enclosure, child_of

POLL_S = 0.1
"""To look may take a process, whose CPU would be missing where it is waited for."""
_COLLECT_SELDOM = {"GOGC": "400"}
"""For programs in Go: CPUs are what tests wait for, not memory."""


class ComponentFailedError(Exception):
    """A program ended, or did not get ready in time; the text holds the end of its log."""


@dataclass(slots=True)
class Component:
    """What is known of a program, and the running one, if it runs."""

    name: str
    command: Sequence[str | Path]
    enclosure: Enclosure
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    _entry: subprocess.Popen[bytes] | None = None
    _pid: int = 0

    @property
    def log(self) -> Path:
        return self.enclosure.folder / "log" / f"{self.name}.log"

    @property
    def pid(self) -> int:
        """Return the program's own pid on this machine; 0 while it does not run."""
        return self._pid if self._entry is not None and self._entry.poll() is None else 0

    def start(self) -> None:
        self.log.parent.mkdir(exist_ok=True)
        with self.log.open("ab") as output:
            self._entry = subprocess.Popen(
                self.enclosure.inside(self.command),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, **_COLLECT_SELDOM, **self.env},
                start_new_session=True,
            )
        self._pid = child_of(self._entry)

    def stop(self, *, by: signal.Signals = signal.SIGTERM, limit_s: float = 20) -> None:
        """Signal the program and wait for its end; what is still there after `limit_s` is killed."""
        if self._entry is None or not self.pid:
            return
        os.kill(self._pid, by)
        try:
            self._entry.wait(limit_s)
        except subprocess.TimeoutExpired:
            os.kill(self._pid, signal.SIGKILL)
            self._entry.wait()

    def kill(self) -> None:
        """End it as a crash does."""
        self.stop(by=signal.SIGKILL)

    def reap(self) -> None:
        """Take note of an end that came with the enclosure's."""
        if self._entry is not None:
            self._entry.wait()

    def await_(self, ready: Callable[[], bool], limit_s: float = 180) -> None:
        """Wait until `ready` says so."""
        deadline = time.monotonic() + limit_s
        while not ready():
            if not self.pid:
                raise ComponentFailedError(f"{self.name} ended:\n{self.last_words()}")
            if time.monotonic() > deadline:
                raise ComponentFailedError(f"{self.name} is not ready after {limit_s} s:\n{self.last_words()}")
            time.sleep(POLL_S)

    def last_words(self, lines: int = 20) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:]) if self.log.exists() else ""
