"""One thing that happened, as whoever saw it wrote it down: a line of JSON.

Invariant: what is written is read again; a line that cannot be read is no happening, and ends nothing.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, cast

CAME_EARLY: Final = "came, and is not ready yet"
"""What is said of a worker that came; of one that was ready, just that it came."""


class Kind(StrEnum):
    """What sort of thing; the values stand in files."""

    LOAD = "load"
    """Numbers of one service since the sample before: see `breach`."""
    HEALTH = "health"
    """The router thinks otherwise of a worker; `detail` says why."""
    SLOW = "slow"
    """A worker takes far longer than predicted, or does so no more (number `times`)."""
    TRUST = "trust"
    """A worker's block events are believed, or no more."""
    HANDOFF = "hand-off"
    """Prefill workers gave nothing to decode with (number `count`)."""
    ERRORS = "errors"
    """A worker answered with errors of the server, or lost what it was answering (number `count`)."""
    WORKERS = "workers"
    """A worker came or went."""
    ROLLOUT = "rollout"
    """Workers of another revision came."""
    PLAN = "plan"
    """The planner decided to move."""
    PROCESS = "process"
    """A process ended by itself."""
    ENGINE = "engine"
    """An agent found its engine failed."""
    BLOCKS = "blocks"
    """Block events or blocks were lost or damaged."""
    CHANGE = "change"
    """Somebody changed what is wanted."""


@dataclass(frozen=True, slots=True)
class Happening:
    """One thing; `at` in seconds since 1970."""

    at: float
    kind: Kind
    service: str = ""
    worker: str = ""
    """Whom it happened to; empty: nobody alone."""
    detail: str = ""
    bad: bool = False
    """False: for the better, or neither."""
    numbers: Mapping[str, float] = field(default_factory=dict[str, float])

    def number(self, name: str) -> float:
        return self.numbers.get(name, 0.0)


def written(it: Happening) -> str:
    """Write a line, without its end; what is empty is left out."""
    fields: dict[str, object] = {
        "at": round(it.at, 3),
        "kind": it.kind.value,
        "service": it.service,
        "worker": it.worker,
        "detail": it.detail,
        "bad": it.bad,
        "numbers": dict(it.numbers),
    }
    kept = {name: value for name, value in fields.items() if value or name == "at"}
    return json.dumps(kept, ensure_ascii=False, separators=(",", ":"))


def read(line: str) -> Happening | None:
    """Read a line; None where it is none, or of a kind that is not known here."""
    try:
        found: Any = json.loads(line)
        if not isinstance(found, dict):
            return None
        fields = cast("dict[str, Any]", found)
        numbers = {str(name): float(value) for name, value in dict(fields.get("numbers", {})).items()}
        return Happening(
            float(fields["at"]),
            Kind(fields["kind"]),
            str(fields.get("service", "")),
            str(fields.get("worker", "")),
            str(fields.get("detail", "")),
            bool(fields.get("bad", False)),
            numbers,
        )
    except (ValueError, TypeError, KeyError):
        return None
