"""`logs`: what router, agents and engines wrote."""

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import click

from inferplane.context import Context
from inferplane.errors import InvalidError
from inferplane.instances import Instance, choose
from inferplane.options import instance_options

_POLL_S = 0.2
_SEVERAL_TAIL = 20
_CHUNK = 1 << 20


@click.command("logs")
@click.argument("worker", required=False)
@instance_options
@click.option("-f", "--follow", is_flag=True, help="Go on with what is written next.")
@click.option("--tail", type=click.IntRange(0), help="Lines from the end; default: all of one log, 20 of several.")
@click.pass_obj
def command(
    context: Context, *, worker: str | None, name: str | None, state_dir: Path | None, follow: bool, tail: int | None
) -> None:
    """Print the logs of WORKER (decode-0, decode-0-engine, router, runner), or of all."""
    logs = _logs(choose(context, name=name, state_dir=state_dir), worker)
    several = len(logs) > 1
    lines = tail if tail is not None or not several else _SEVERAL_TAIL
    readers = [_Reader(path, f"[{path.stem}] " if several else "") for path in logs]
    for reader in readers:
        for line in reader.last(lines):
            click.echo(line)
    if follow:
        with suppress(KeyboardInterrupt):  # how following ends
            _follow(readers)


def _follow(readers: "list[_Reader]") -> None:
    while True:
        time.sleep(_POLL_S)
        for reader in readers:
            for line in reader.new():
                click.echo(line)


def _logs(instance: Instance, worker: str | None) -> list[Path]:
    known = sorted(instance.state.logs.glob("*.log"))
    if worker is None:
        return known
    found = [path for path in known if path.stem in (worker, f"{worker}-agent", f"{worker}-engine")]
    if not found:
        names = sorted({path.stem for path in known})
        raise InvalidError(f"{instance.name} has no log of {worker!r}; there are: {', '.join(names) or 'none yet'}")
    return found


@dataclass
class _Reader:
    """Reads a log from where it was left."""

    path: Path
    prefix: str
    position: int = 0
    rest: bytes = b""

    def last(self, lines: int | None) -> list[str]:
        found = list(self.new())
        return found if lines is None else found[len(found) - lines :] if lines < len(found) else found

    def new(self) -> Iterator[str]:
        try:
            size = self.path.stat().st_size
        except FileNotFoundError:
            return
        if size < self.position:  # begun anew
            self.position, self.rest = 0, b""
        with self.path.open("rb") as file:
            file.seek(self.position)
            while chunk := file.read(_CHUNK):
                *whole, self.rest = (self.rest + chunk).split(b"\n")
                yield from (self.prefix + line.decode("utf-8", errors="replace") for line in whole)
            self.position = file.tell()
