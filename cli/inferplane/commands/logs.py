"""`logs`: what router, agents and engines wrote."""

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import click

from inferplane.cluster import Connection
from inferplane.completing import complete_instance
from inferplane.context import Context
from inferplane.errors import InvalidError
from inferplane.instances import Instance, choose
from inferplane.options import instance_options
from inferplane.target import Target, cluster_meant, world_options

_POLL_S = 0.2
_SEVERAL_TAIL = 20
_CHUNK = 1 << 20


@click.command("logs")
@click.argument("worker", required=False, shell_complete=complete_instance)
@instance_options
@click.option("-f", "--follow", is_flag=True, help="Go on with what is written next.")
@click.option("--tail", type=click.IntRange(0), help="Lines from the end; default: all of one log, 20 of several.")
@click.option("-c", "--container", default="", help="In a cluster: agent or engine.  [default: both]")
@click.option("-p", "--previous", is_flag=True, help="In a cluster: of the containers' last run before this one.")
@world_options
@click.pass_obj
def command(
    context: Context,
    *,
    worker: str | None,
    name: str | None,
    state_dir: Path | None,
    follow: bool,
    tail: int | None,
    container: str,
    previous: bool,
    target: Target,
) -> None:
    """Print the logs of WORKER, or of all.

    On this machine WORKER is decode-0, decode-0-engine, router or runner;
    in a cluster a Pod, SERVICE, SERVICE/decode or router.
    """
    connection = cluster_meant(context, target, name=name, state_dir=state_dir)
    with suppress(KeyboardInterrupt):  # how following ends
        if connection is not None:
            _print_pods(connection, worker or "", name or "", container, follow=follow, tail=tail, previous=previous)
        else:
            _print_files(_logs(choose(context, name=name, state_dir=state_dir), worker), follow=follow, tail=tail)


def _print_pods(
    connection: Connection,
    worker: str,
    service: str,
    container: str,
    *,
    follow: bool,
    tail: int | None,
    previous: bool,
) -> None:
    from inferplane.kube.pod_logs import find_sources, follow_all, ordered, read  # noqa: PLC0415

    sources = ordered(find_sources(connection, worker, service, container))
    several = len(sources) > 1
    lines = tail if tail is not None or not several else _SEVERAL_TAIL
    if follow and not previous:
        for source, line in follow_all(connection.cluster, sources, tail=lines):
            click.echo(f"[{source.label}] {line}" if several else line)
        return
    for source in sources:
        for line in read(connection.cluster, source, follow=False, tail=lines, previous=previous):
            click.echo(f"[{source.label}] {line}" if several else line)


def _print_files(logs: list[Path], *, follow: bool, tail: int | None) -> None:
    several = len(logs) > 1
    lines = tail if tail is not None or not several else _SEVERAL_TAIL
    readers = [_Reader(path, f"[{path.stem}] " if several else "") for path in logs]
    for reader in readers:
        for line in reader.last(lines):
            click.echo(line)
    if follow:
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
