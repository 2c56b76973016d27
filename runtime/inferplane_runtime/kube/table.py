"""The records of one kind, by uid, kept in step with list and watch.

Invariant: rows are replaced as a whole by a complete list and one by one by events; until the next list is complete the
old rows stand.
"""

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

import structlog

R = TypeVar("R")
_log = structlog.get_logger("inferplane.kube")


class Table(Generic[R]):
    """Calls `changed` after every change of a record."""

    def __init__(self, read: Callable[[Mapping[str, Any], R | None], R], *, changed: Callable[[], None]) -> None:
        self._read = read
        self._changed = changed
        self.rows: dict[str, R] = {}
        self.listed = False
        """A first list is complete."""

    @property
    def empty(self) -> bool:
        return not self.rows

    def read(self, raw: Mapping[str, Any]) -> tuple[str, R]:
        """Make the record of an object; the one before if it says the same, so that what was made of it stands."""
        uid = uid_of(raw)
        before = self.rows.get(uid)
        record = self._read(raw, before)
        if before is not None and record == before:
            return uid, before
        if problem := getattr(record, "problem", ""):
            _say(raw, problem)
        return uid, record

    def replace(self, rows: Mapping[str, R]) -> None:
        """Take a complete list."""
        if not self.listed or rows != self.rows:
            self.rows, self.listed = dict(rows), True
            self._changed()

    def put(self, raw: Mapping[str, Any]) -> None:
        uid, record = self.read(raw)
        if self.rows.get(uid) != record:
            self.rows[uid] = record
            self._changed()

    def drop(self, raw: Mapping[str, Any]) -> None:
        if self.rows.pop(uid_of(raw), None) is not None:
            self._changed()


def _say(raw: Mapping[str, Any], problem: str) -> None:
    metadata: Mapping[str, Any] = raw["metadata"]
    _log.warning(
        "a resource is left out",
        kind=raw.get("kind"),
        namespace=metadata.get("namespace"),
        name=metadata.get("name"),
        problem=problem,
    )


def uid_of(raw: Mapping[str, Any]) -> str:
    return str(raw["metadata"]["uid"])
