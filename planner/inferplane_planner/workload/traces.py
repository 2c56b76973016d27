"""Recorded arrivals: files that others published, read line by line.

Mooncake's form: JSON lines `{"timestamp": ms, "input_length", "output_length", "hash_ids": [...]}`, an id for each 512
tokens, equal ids for equal beginnings.  Azure's form: CSV with the columns `TIMESTAMP,ContextTokens,GeneratedTokens`,
which says nothing of what is shared.  A router's decision records are JSON lines too, and told by their first one.
`speed` 2 lets the trace come twice as fast.
"""

import csv
import json
import math
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, cast

from inferplane_planner.workload.arrivals import check_positive
from inferplane_planner.workload.errors import WorkloadError
from inferplane_planner.workload.prompts import Piece, Prompt, Request
from inferplane_planner.workload.recorded import is_record, read_recorded
from inferplane_planner.workload.shapes import OWN, PREFIX, named

BLOCK: Final = 512
_LONGEST: Final = 10_000_000
_COLUMNS: Final = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")

Line = tuple[str, float, Prompt, int]
"""Where it stands, seconds since some beginning, prompt, output tokens."""


class Trace:
    """A file as a workload; of what is sorted by time one request is held at once."""

    def __init__(self, path: Path, *, speed: float = 1.0, requests: int | None = None) -> None:
        check_positive("speed", speed)
        self._lines = _reader(path)(path)
        self._speed = speed
        self._limit = requests
        self._number = 0
        self._begin_s: float | None = None
        self._last_s = -math.inf
        self._next = self._read()

    def peek(self) -> float | None:
        return self._next.at_s if self._next else None

    def take(self) -> Request:
        request = self._next
        if request is None:
            raise LookupError("the trace has ended")
        self._next = self._read()
        return request

    def finished(self, request: Request, at_s: float) -> None:
        """Change nothing: what was recorded waited for other answers."""

    def _read(self) -> Request | None:
        if self._limit is not None and self._number >= self._limit:
            return None
        line = next(self._lines, None)
        if line is None:
            return None
        where, time_s, prompt, output = line
        if time_s < self._last_s:
            raise WorkloadError(where, "comes before the line above", "sort the trace by time")
        self._last_s = time_s
        self._begin_s = time_s if self._begin_s is None else self._begin_s
        request = Request(self._number, (time_s - self._begin_s) / self._speed, prompt, output)
        self._number += 1
        return request


def _reader(path: Path) -> Callable[[Path], Iterator[Line]]:
    readers: Mapping[str, Callable[[Path], Iterator[Line]]] = {".jsonl": _read_lines, ".csv": read_azure}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise WorkloadError(str(path), "is neither .jsonl nor .csv", "name the file after its form")
    return reader


def _read_lines(path: Path) -> Iterator[Line]:
    return read_recorded(path, _texts(path)) if holds_records(path) else read_mooncake(path)


def holds_records(path: Path) -> bool:
    """Whether a file's first line is a decision record.  Raises WorkloadError where it cannot be read."""
    first = next(_texts(path), None)
    try:
        return first is not None and is_record(json.loads(first[1]))
    except ValueError:
        return False


def read_mooncake(path: Path) -> Iterator[Line]:
    """Yield the lines of a JSONL trace.  Raises WorkloadError."""
    for number, text in _texts(path):
        where = f"{path}:{number}"
        try:
            entry: object = json.loads(text)
        except ValueError as error:
            raise WorkloadError(where, f"is not JSON: {error}", "one object a line") from error
        if not isinstance(entry, dict):
            raise WorkloadError(where, "is not an object", "one object a line")
        fields = cast("dict[str, Any]", entry)
        tokens = _length(where, "input_length", fields.get("input_length"))
        output = _length(where, "output_length", fields.get("output_length"))
        time_s = _time(where, fields.get("timestamp")) / 1000.0
        yield where, time_s, Prompt(_pieces(where, fields.get("hash_ids"), tokens)), output


def read_azure(path: Path) -> Iterator[Line]:
    """Yield the lines of a CSV trace.  Raises WorkloadError."""
    rows = csv.reader(text for _, text in _texts(path))
    header = next(rows, list[str]())
    if tuple(header) != _COLUMNS:
        raise WorkloadError(f"{path}:1", f"has the columns {header}", f"use {','.join(_COLUMNS)}")
    for number, row in enumerate(rows, start=2):
        where = f"{path}:{number}"
        if len(row) != len(_COLUMNS):
            raise WorkloadError(where, f"has {len(row)} fields", f"use {','.join(_COLUMNS)}")
        tokens, output = _length(where, "ContextTokens", row[1]), _length(where, "GeneratedTokens", row[2])
        yield where, _moment(where, row[0]), Prompt((Piece(named(OWN, number), tokens),)), output


def _texts(path: Path) -> Iterator[tuple[int, str]]:
    try:
        with path.open(encoding="utf-8") as file:
            for number, text in enumerate(file, start=1):
                if text.strip():
                    yield number, text
    except (OSError, UnicodeDecodeError) as error:
        raise WorkloadError(str(path), f"cannot be read: {error}", "give a readable text file") from error


def _pieces(where: str, ids: object, tokens: int) -> tuple[Piece, ...]:
    names = [each for each in cast("list[object]", ids) if isinstance(each, int)] if isinstance(ids, list) else []
    if not isinstance(ids, list) or len(names) != len(cast("list[object]", ids)) or min(names, default=0) < 0:
        raise WorkloadError(where, "hash_ids is not a list of whole numbers", f"name each {BLOCK} tokens")
    needed = -(-tokens // BLOCK)
    if len(names) != needed:
        raise WorkloadError(where, f"{len(names)} hash_ids for {tokens} tokens", f"give {needed}, one per {BLOCK}")
    last = tokens - BLOCK * (needed - 1)
    return tuple(Piece(named(PREFIX, name), BLOCK if place < needed - 1 else last) for place, name in enumerate(names))


def _length(where: str, field: str, value: object) -> int:
    try:
        number = float(cast("Any", value))
    except (TypeError, ValueError):
        raise WorkloadError(where, f"{field} is {value!r}", "give a whole number of tokens") from None
    if not (math.isfinite(number) and number == int(number) and 1 <= number <= _LONGEST):
        raise WorkloadError(where, f"{field} is {value!r}", f"give a whole number of tokens, 1 to {_LONGEST}")
    return int(number)


def _time(where: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise WorkloadError(where, f"timestamp is {value!r}", "give milliseconds as a number")
    return float(value)


def _moment(where: str, text: str) -> float:
    whole, _, fraction = text.partition(".")
    try:
        moment = datetime.fromisoformat(whole).replace(tzinfo=UTC)
        return moment.timestamp() + (float(f"0.{fraction}") if fraction else 0.0)
    except ValueError:
        raise WorkloadError(where, f"TIMESTAMP is {text!r}", "use YYYY-MM-DD HH:MM:SS.ffffff") from None
