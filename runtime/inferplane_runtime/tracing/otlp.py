"""Spans as a collector reads them: OTLP's protobuf messages.

This is the one module that needs OpenTelemetry's package; it is imported where an endpoint is set.
"""

from collections.abc import Iterable, Mapping

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1 import trace_pb2 as pb

from inferplane_runtime.tracing.span import Attribute, Attributes, Span, SpanEvent, SpanKind

_NANOSECONDS = 1_000_000_000
_KINDS = {
    SpanKind.INTERNAL: pb.Span.SPAN_KIND_INTERNAL,
    SpanKind.SERVER: pb.Span.SPAN_KIND_SERVER,
    SpanKind.CLIENT: pb.Span.SPAN_KIND_CLIENT,
}
_SCOPE = InstrumentationScope(name="inferplane")


def encode(spans: Iterable[Span], resource: Mapping[str, str], *, wall_of: float) -> bytes:
    """Write one export of one process; `wall_of` is what the wall clock says when the monotonic one says 0."""
    scoped = pb.ScopeSpans(scope=_SCOPE, spans=[_span(span, wall_of) for span in spans])
    whose = Resource(attributes=[_pair(name, text) for name, text in resource.items()])
    resource_spans = pb.ResourceSpans(resource=whose, scope_spans=[scoped])
    return ExportTraceServiceRequest(resource_spans=[resource_spans]).SerializeToString()


def _span(span: Span, wall_of: float) -> pb.Span:
    ended = span.begun if span.ended is None else span.ended
    return pb.Span(
        trace_id=span.context.trace_id,
        span_id=span.context.span_id,
        parent_span_id=span.parent,
        trace_state=span.state,
        flags=1,
        name=span.name,
        kind=_KINDS[span.kind],
        start_time_unix_nano=_nanoseconds(span.begun, wall_of),
        end_time_unix_nano=_nanoseconds(ended, wall_of),
        attributes=_pairs(span.attributes),
        events=[_event(event, wall_of) for event in span.events],
        status=pb.Status(code=pb.Status.STATUS_CODE_ERROR, message=span.fault) if span.fault else None,
    )


def _event(event: SpanEvent, wall_of: float) -> pb.Span.Event:
    at = _nanoseconds(event.at, wall_of)
    return pb.Span.Event(time_unix_nano=at, name=event.name, attributes=_pairs(event.attributes))


def _nanoseconds(at: float, wall_of: float) -> int:
    return round(at * _NANOSECONDS) + round(wall_of * _NANOSECONDS)  # a sum of floats would lose microseconds


def _pairs(attributes: Attributes) -> list[KeyValue]:
    return [_pair(name, found) for name, found in attributes.items()]


def _pair(name: str, found: Attribute) -> KeyValue:
    return KeyValue(key=name, value=_value(found))


def _value(found: Attribute) -> AnyValue:
    match found:
        case bool():
            return AnyValue(bool_value=found)
        case int():
            return AnyValue(int_value=found)
        case float():
            return AnyValue(double_value=found)
        case str():
            return AnyValue(string_value=found)
