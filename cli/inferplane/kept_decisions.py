"""Decision records that routers have written to files: of requests that no router remembers any more."""

from collections.abc import Iterator
from pathlib import Path

from google.protobuf.json_format import Parse, ParseError

from inferplane.errors import InvalidError
from inferplane_api.proto.router_pb2 import DecisionRecord


def kept_decision(path: Path, request_id: str) -> DecisionRecord | None:
    """Return the newest record of a request in a folder or file of records.  Raises InvalidError."""
    if not path.exists():
        raise InvalidError(f"--records {path}: is not there; give a router's folder of records, or one of its files")
    files = sorted(path.glob("decisions-*.jsonl"), key=_age) if path.is_dir() else [path]
    return next((it for file in files for it in _newest_first(file, request_id)), None)


def _newest_first(file: Path, request_id: str) -> Iterator[DecisionRecord]:
    for line in reversed(file.read_text("utf-8", "replace").splitlines()):
        if request_id in line:  # reading every line as a record would take a hundred times as long
            record = _read(line)
            if record is not None and record.request_id == request_id:
                yield record


def _read(line: str) -> DecisionRecord | None:
    try:
        return Parse(line, DecisionRecord(), ignore_unknown_fields=True)
    except ParseError:
        return None


def _age(file: Path) -> float:
    return -file.stat().st_mtime
