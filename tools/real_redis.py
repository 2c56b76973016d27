"""Run Debian's Redis on this machine, for tests and benchmarks of the KV store's shared tier.

It listens on the loopback only, keeps nothing on disk, and ends with its caller.
"""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from bare_engine import tied_to_parent
from inferplane_runtime.ports import hold_port

FOLDER: Final = Path(__file__).resolve().parents[1] / ".cache" / "redis"
_READY: Final = b"Ready to accept"


class RedisError(Exception):
    """It did not start; the text holds what it said."""


def find_program(name: str) -> Path | None:
    """Return the path of `redis-server` or `redis-benchmark`, if there is one."""
    fetched = FOLDER / name
    on_path = shutil.which(name)
    return fetched if fetched.is_file() else Path(on_path) if on_path else None


@dataclass(slots=True)
class RealRedis:
    """A running server."""

    process: subprocess.Popen[bytes]
    port: int

    @classmethod
    def start(cls, program: Path, folder: Path, *arguments: str) -> Self:
        """Start and wait until it takes connections; `arguments` are Redis' own.  Raises RedisError."""
        held = hold_port()
        told = [str(program), "--port", str(held.number), "--bind", "127.0.0.1", "--save", "", *arguments]
        log = folder / "redis.log"
        with held, log.open("wb") as file:
            process = subprocess.Popen(  # noqa: S603 - our own command
                [*tied_to_parent("TERM"), *told], stdout=subprocess.PIPE, stderr=file, cwd=folder
            )
            server = cls(process, held.number)
            ready = server._ready()
        if not ready:
            server.kill()
            raise RedisError(f"{program} ended: {log.read_text('utf-8', 'replace')[-2000:]}")
        return server

    def kill(self) -> None:
        """End it without a word, as a machine that fails does."""
        self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()

    def _ready(self) -> bool:
        assert self.process.stdout is not None  # noqa: S101 - a pipe was asked for
        return any(_READY in line for line in self.process.stdout)
