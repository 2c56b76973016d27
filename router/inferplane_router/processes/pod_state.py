"""What the gateways of a router say of themselves, and what is so of all of them together.

Invariant: a router that was whole once stays so: whoever dies is replaced, and meanwhile the others serve.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass

import orjson


@dataclass(frozen=True, slots=True)
class Report:
    """What a gateway says."""

    generation: int = 0
    """Of its catalogue."""
    listening: bool = False
    was_whole: bool = False
    """It has served in a router that was whole."""
    observers: int = 0
    """How many follow what it routes."""
    ports: tuple[int, int, int] = (0, 0, 0)
    """HTTP, gRPC, endpoint picker: where it listens."""


@dataclass(frozen=True, slots=True)
class Whole:
    """What the index process says of all."""

    unready: str = ""
    """Why no request should come, or nothing."""
    generation: int = 0
    """Of the catalogue that every process has at least."""
    observers: int = 0


def written(value: Report | Whole) -> bytes:
    return orjson.dumps(asdict(value))


def read_report(body: bytes) -> Report:
    found = orjson.loads(body)
    return Report(**(found | {"ports": tuple(found["ports"])}))


def read_whole(body: bytes) -> Whole:
    return Whole(**orjson.loads(body))


def together(reports: Iterable[Report], *, expected: int, generation: int, unready: str) -> Whole:
    """Say what is so of all; `generation` and `unready` are the index process's own."""
    serving = [report for report in reports if report.listening]
    observers = sum(report.observers for report in serving)
    oldest = min((generation, *(report.generation for report in serving)))
    if any(report.was_whole for report in serving):
        return Whole("", oldest, observers)
    if not unready and len(serving) < expected:
        unready = f"{len(serving)} of {expected} gateway processes listen"
    return Whole(unready, oldest, observers)
