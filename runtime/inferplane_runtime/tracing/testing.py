"""A collector for tests: takes OTLP over HTTP and keeps the spans."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span as Message

from inferplane_runtime.http.api import Exchange, Request, Response

if TYPE_CHECKING:
    from collections.abc import Iterable

    from opentelemetry.proto.common.v1.common_pb2 import KeyValue


@dataclass(frozen=True, slots=True)
class SeenSpan:
    """A span as a collector saw it; of which process, and moments in seconds since 1970."""

    message: Message
    resource: dict[str, Any]

    @property
    def name(self) -> str:
        return self.message.name

    @property
    def attributes(self) -> dict[str, Any]:
        return _read(self.message.attributes)

    @property
    def events(self) -> dict[str, dict[str, Any]]:
        return {event.name: _read(event.attributes) for event in self.message.events}

    @property
    def fault(self) -> str:
        return self.message.status.message

    @property
    def times(self) -> tuple[float, float]:
        return self.message.start_time_unix_nano / 10**9, self.message.end_time_unix_nano / 10**9

    def holds(self, other: "SeenSpan") -> bool:
        """Say whether the other one is a step of this one."""
        return (self.message.trace_id, self.message.span_id) == (other.message.trace_id, other.message.parent_span_id)


@dataclass(slots=True)
class Collector:
    """The handler of an HTTP server; answers each export with `status`."""

    status: int = 200
    spans: list[SeenSpan] = field(default_factory=list[SeenSpan])
    paths: list[bytes] = field(default_factory=list[bytes])

    def __call__(self, request: Request, exchange: Exchange) -> None:
        self.paths.append(request.path)
        if self.status == 200:  # noqa: PLR2004 - HTTP
            self.spans += spans_of(request.body)
        exchange.respond(Response(self.status))

    def named(self, name: str) -> list[SeenSpan]:
        return [span for span in self.spans if span.name == name]


def spans_of(body: bytes) -> list[SeenSpan]:
    """Read one export."""
    return [
        SeenSpan(message, _read(resource.resource.attributes))
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans
        for scope in resource.scope_spans
        for message in scope.spans
    ]


def _read(pairs: "Iterable[KeyValue]") -> dict[str, Any]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value") or "string_value") for pair in pairs}
