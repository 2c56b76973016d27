"""A router's decision records as arrivals: JSON lines, one for each request that ended.

Problem.  What a service was asked is the best load to plan and to simulate for, and its routers keep it; but records
are written when requests end, and say how much of a prompt was cached and not which text it was.
Idea.  All records are held, reduced to four numbers each, and sorted by arrival: when the decision was made, less the
wait for it.  What was cached of a prompt becomes the beginning of one text that all of them share, the rest is its own.
Trade-off.  As much is cached as it was, once a worker has seen a prompt; which of them holds it is not kept, so records
say nothing of how well another policy would have placed prefixes.
Invariant.  Requests that got no answer are left out: what they would have been answered is not known.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from google.protobuf.json_format import ParseDict, ParseError

from inferplane_api.proto.router_pb2 import DecisionRecord
from inferplane_planner.observe.wire import finished
from inferplane_planner.workload.errors import WorkloadError
from inferplane_planner.workload.prompts import Piece, Prompt
from inferplane_planner.workload.shapes import OWN, PREFIX, named

_ID: Final = frozenset({"requestId", "request_id"})


@dataclass(frozen=True, slots=True, order=True)
class Recorded:
    """One answered request; `at_s` in seconds since 1970, lengths in tokens."""

    at_s: float
    line: int
    prompt: int
    cached: int
    output: int


def is_record(entry: object) -> bool:
    """Whether a line is a decision record and not of another form."""
    return isinstance(entry, dict) and not _ID.isdisjoint(cast("dict[str, object]", entry))


def read_recorded(path: Path, texts: Iterable[tuple[int, str]]) -> Iterator[tuple[str, float, Prompt, int]]:
    """Yield where each line stands, seconds, prompt and answer's tokens, sorted.  Raises WorkloadError."""
    found = sorted(each for number, text in texts if (each := _read(f"{path}:{number}", number, text)) is not None)
    if not found:
        raise WorkloadError(str(path), "holds no answered request", "give records of a router that has served")
    for each in found:
        yield f"{path}:{each.line}", each.at_s, _prompt(each), each.output


def _read(where: str, number: int, text: str) -> Recorded | None:
    try:
        entry: dict[str, Any] = json.loads(text)
        record = ParseDict(entry, DecisionRecord(), ignore_unknown_fields=True)
    except (ValueError, ParseError) as error:
        raise WorkloadError(where, f"is no decision record: {error}", "remove the line") from error
    request = finished(record)
    if request is None or request.prompt < 1:
        return None
    return Recorded(
        record.decided_at - max(0.0, record.queued_s),
        number,
        request.prompt,
        min(request.cached, request.prompt - 1),
        request.output,
    )


def _prompt(request: Recorded) -> Prompt:
    own = Piece(named(OWN, request.line), request.prompt - request.cached)
    return Prompt((Piece(named(PREFIX, 0), request.cached), own) if request.cached else (own,))
