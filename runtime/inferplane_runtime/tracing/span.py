"""One step of a request: when it began and ended, what is to be known of it, and what happened in it.

Moments are seconds of the process's monotonic clock; the exporter turns them into those of the wall.
Invariant: a span is handed to its tracer once, when it ends; what is set after that is lost.
"""

from enum import IntEnum
from typing import TYPE_CHECKING

from inferplane_runtime.tracing.context import SpanContext
from inferplane_runtime.values import value

if TYPE_CHECKING:
    from collections.abc import Callable

Attribute = str | int | float | bool
Attributes = dict[str, Attribute]


class SpanKind(IntEnum):
    """Values of OpenTelemetry's SpanKind."""

    INTERNAL = 1
    SERVER = 2
    CLIENT = 3


@value(frozen=True, slots=True)
class SpanEvent:
    """Something that happened at one moment."""

    at: float
    name: str
    attributes: Attributes


class Span:
    """One step, in the hands of whoever does it."""

    __slots__ = (
        "_ended",
        "attributes",
        "begun",
        "context",
        "ended",
        "events",
        "fault",
        "kind",
        "name",
        "parent",
        "state",
    )

    def __init__(
        self,
        name: str,
        kind: SpanKind,
        context: SpanContext,
        *,
        begun: float,
        ended: "Callable[[Span], None]",
        parent: bytes = b"",
        state: str = "",
        attributes: Attributes | None = None,
    ) -> None:
        self.name = name
        self.kind = kind
        self.context = context
        self.begun = begun
        self.parent = parent
        """The span that it is a step of; empty: it begins the trace."""
        self.state = state
        """The client's `tracestate`, as it came."""
        self.attributes: Attributes = attributes or {}
        self.events: list[SpanEvent] = []
        self.fault = ""
        """What went wrong; empty: nothing."""
        self.ended: float | None = None
        self._ended = ended

    def happened(self, at: float, name: str, **attributes: Attribute) -> None:
        self.events.append(SpanEvent(at, name, attributes))

    def fail(self, fault: str) -> None:
        """Say what went wrong; the first word counts."""
        self.fault = self.fault or fault

    def end(self, at: float, fault: str = "") -> None:
        """End it; again is harmless."""
        if self.ended is None:
            self.fail(fault)
            self.ended = at
            self._ended(self)
