"""What happened, gathered from wherever it was written: a router's records, and the logs of a local instance.

Invariant: a file that is missing or damaged is left out; whoever looks into an incident has seen worse.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from inferplane.errors import InvalidError
from inferplane.log_lines import LogLine, read_line
from inferplane_api.catalogue import Catalogue
from inferplane_observability.incident.happening import Happening, Kind, read
from inferplane_operator.local.statedir import StateDir

_ENGINE: Final = "-engine"
_AGENT: Final = "-agent"
Reading = Callable[[LogLine, str], Happening]


def of_records(path: Path) -> list[Happening]:
    """Read a router's records: a folder of them, or one file.  Raises InvalidError."""
    if not path.exists():
        raise InvalidError(f"--records {path}: is not there; give a router's folder of records, or one of its files")
    files = sorted(path.glob("events-*.jsonl")) if path.is_dir() else [path]
    return [it for file in files for line in _lines(file) if (it := read(line)) is not None]


def of_instance(state: StateDir) -> list[Happening]:
    """Read everything that a local instance has written."""
    kept = of_records(state.records) if state.records.is_dir() else []
    names = _names(state.catalogue)
    logs = [it for file in sorted(state.logs.glob("*.log")) for it in _of_log(file)]
    return kept + [replace(it, worker=names.get(it.worker, it.worker)) for it in logs]


def _names(catalogue: Path) -> dict[str, str]:
    """Return who is at which address: logs of agents know of others no more."""
    try:
        workers = Catalogue.model_validate_json(catalogue.read_bytes()).workers
    except (OSError, ValueError):
        return {}
    return {it.http_address: it.worker_id for it in workers}


def _of_log(file: Path) -> Iterator[Happening]:
    worker = file.stem.removesuffix(_AGENT) if file.stem.endswith(_AGENT) else ""
    for text in _lines(file):
        line = read_line(text)
        reading = READINGS.get(line.event) if line is not None else None
        if line is not None and reading is not None:
            yield reading(line, worker)


def _lines(file: Path) -> Iterable[str]:
    try:
        return file.read_text("utf-8", "replace").splitlines()
    except OSError:
        return ()


def _ended(line: LogLine, _: str) -> Happening:
    child = line.get("child")
    what = "engine" if child.endswith(_ENGINE) else "agent" if child.endswith(_AGENT) else child
    worker = child.removesuffix(_ENGINE).removesuffix(_AGENT)
    return Happening(line.at, Kind.PROCESS, worker=worker, detail=f"{what} {line.get('how')}", bad=True)


def _engine(line: LogLine, worker: str) -> Happening:
    return Happening(line.at, Kind.ENGINE, worker=worker, detail=line.get("detail"), bad=True)


def _drained(line: LogLine, _: str) -> Happening:
    return Happening(line.at, Kind.WORKERS, worker=line.get("worker"), detail=f"drained: {line.get('reason')}")


def _desired(line: LogLine, _: str) -> Happening:
    return Happening(line.at, Kind.CHANGE, detail=f"desired state {line.get('generation')} taken over")


def _scaling(line: LogLine, _: str) -> Happening:
    detail = f"{line.get('role')} from {line.get('before')} to {line.get('after')}: {line.get('reason')}"
    return Happening(line.at, Kind.PLAN, detail=detail)


def _handoff(line: LogLine, worker: str) -> Happening:
    # The routers' records count them; this says why.
    detail = f"{line.get('address')} failed a hand-off: {line.get('cause')}"
    return Happening(line.at, Kind.HANDOFF, worker=worker, detail=detail)


def _blocks(line: LogLine, worker: str) -> Happening:
    more = line.get("reason") or line.get("address") or line.get("batches")
    return Happening(line.at, Kind.BLOCKS, worker=worker, detail=f"{line.event}: {more}".rstrip(": "), bad=True)


def _damaged(line: LogLine, worker: str) -> Happening:
    detail = f"its blocks arrive damaged at {worker}: it is not used"
    return Happening(line.at, Kind.BLOCKS, worker=line.get("address"), detail=detail, bad=True)


def _stored(line: LogLine, _: str) -> Happening:
    return Happening(line.at, Kind.BLOCKS, detail=f"{line.event}: {line.get('tier')}", bad=True)


READINGS: Final[Mapping[str, Reading]] = {
    "a child ended by itself": _ended,
    "the engine failed": _engine,
    "a worker is drained": _drained,
    "took over a desired state": _desired,
    "scaling": _scaling,
    "prefill worker failed a hand-off": _handoff,
    "event batches are lost": _blocks,
    "block events are suspect": _blocks,
    "blocks are forgotten": _blocks,
    "blocks from this prefill worker arrive damaged: it is not used": _damaged,
    "a stored block is corrupt": _stored,
}
"""By the event of a log line."""
