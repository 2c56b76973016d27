import asyncio
import subprocess
import sys
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferplane_runtime.clock import FakeClock
from inferplane_runtime.http.api import Headers, UpstreamFailure
from inferplane_runtime.http.testing import PlayedUpstream
from inferplane_runtime.metrics.catalogue.tracing import SPANS
from inferplane_runtime.metrics.instruments import Cells
from inferplane_runtime.tracing.config import parse_endpoint
from inferplane_runtime.tracing.context import SpanContext, read_traceparent
from inferplane_runtime.tracing.exporter import SpanExporter
from inferplane_runtime.tracing.span import Span, SpanKind
from inferplane_runtime.tracing.testing import spans_of
from inferplane_runtime.tracing.tracer import Tracer, traced

PARENT = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
UNSAMPLED = PARENT[:-1] + b"0"
IDS = st.binary(min_size=16, max_size=16).filter(any), st.binary(min_size=8, max_size=8).filter(any)


@given(st.builds(SpanContext, *IDS, st.booleans()))
def test_what_is_written_is_read(context: SpanContext) -> None:
    assert read_traceparent(context.header) == context


@given(st.one_of(st.binary(max_size=80), st.text("0123456789abcdefABCDEF-", max_size=60).map(str.encode)))
def test_whatever_a_client_sends_is_a_context_or_none(text: bytes) -> None:
    found = read_traceparent(text)

    assert found is None or read_traceparent(found.header) == found


@pytest.mark.parametrize(
    "text",
    [
        PARENT + b"-00",
        b"ff" + PARENT[2:],
        PARENT.upper(),
        b"00-" + b"0" * 32 + PARENT[35:],
        PARENT[:36] + b"0" * 16 + b"-01",
        PARENT[:-1],
    ],
)
def test_a_malformed_context_is_none(text: bytes) -> None:
    assert read_traceparent(text) is None


def test_a_later_version_is_read_as_far_as_it_is_known() -> None:
    later = read_traceparent(b"01" + PARENT[2:] + b"-more")

    assert later == read_traceparent(PARENT)


def tracer(ratio: float = 0.0) -> tuple[Tracer, list[Span]]:
    ended: list[Span] = []
    return Tracer(ratio=ratio, rng=Random(1), ended=ended.append), ended


def test_the_clients_word_counts_before_the_ratio() -> None:
    never, _ = tracer(0.0)
    always, _ = tracer(1.0)
    span = never.begin("a", Headers(((b"traceparent", PARENT), (b"tracestate", b"v=1"))), 1.0)

    assert span is not None
    assert (span.context.trace_id.hex(), span.parent.hex(), span.state) == (
        "0af7651916cd43dd8448eb211c80319c",
        "b7ad6b7169203331",
        "v=1",
    )
    assert always.begin("a", Headers(((b"traceparent", UNSAMPLED),)), 1.0) is None
    assert never.begin("a", Headers(((b"traceparent", b"nonsense"),)), 1.0) is None
    assert always.begin("a", Headers(((b"traceparent", b"nonsense"),)), 1.0) is not None


def test_the_ratio_is_that_of_requests_without_a_context() -> None:
    some, _ = tracer(0.25)

    drawn = sum(some.begin("a", Headers(), 0.0) is not None for _ in range(4000))

    assert 900 < drawn < 1100


def test_the_next_process_goes_on_below_the_step_that_called_it() -> None:
    first, ended = tracer(1.0)
    second, _ = tracer()
    request = first.begin("request", Headers(), 1.0)
    assert request is not None
    step = first.step(request, "call", 1.5, kind=SpanKind.CLIENT)

    there = second.begin("serve", traced(Headers(((b"traceparent", UNSAMPLED),)), step), 1.6)
    step.end(2.0, "broke")
    step.end(3.0)

    assert there is not None
    assert (there.context.trace_id, there.parent) == (request.context.trace_id, step.context.span_id)
    assert [(span.name, span.ended, span.fault) for span in ended] == [("call", 2.0, "broke")]


class Bench:
    """An exporter whose collector is played by the test."""

    def __init__(self, most: int = 100) -> None:
        self.clock = FakeClock(monotonic=1000.0, wall=1_800_000_000.0)
        self.upstream = PlayedUpstream()
        self.counted = Cells(SPANS)
        self.exporter = SpanExporter(
            parse_endpoint("http://collector:4318"),
            upstream=self.upstream,
            resource={"service.name": "test"},
            clock=self.clock,
            counted=self.counted,
            most=most,
        )
        self.tracer = Tracer(ratio=1.0, rng=Random(1), ended=self.exporter.take)

    def span(self, name: str = "a") -> None:
        span = self.tracer.begin(name, Headers(), self.clock.monotonic())
        assert span is not None
        span.attributes |= {"text": "x", "count": 3, "share": 0.5, "yes": True}
        span.happened(self.clock.monotonic(), "retry", cause="lost")
        span.end(self.clock.monotonic() + 0.25, "broke")

    def count(self, outcome: str) -> float:
        return self.counted.labels(outcome).value


def test_a_collector_reads_what_was_meant() -> None:
    bench = Bench()
    bench.span()

    bench.exporter.flush()

    (call,) = bench.upstream.calls
    (seen,) = spans_of(call.request.body)
    assert (call.address, call.request.path) == ("collector:4318", b"/v1/traces")
    assert seen.resource == {"service.name": "test"}
    assert (seen.name, seen.fault, seen.times) == ("a", "broke", (1_800_000_000.0, 1_800_000_000.25))
    assert seen.attributes == {"text": "x", "count": 3, "share": 0.5, "yes": True}
    assert seen.events == {"retry": {"cause": "lost"}}


def test_one_batch_is_on_its_way_and_what_is_too_much_is_dropped_and_counted() -> None:
    bench = Bench(most=3)
    bench.span()
    bench.exporter.flush()
    for _ in range(5):
        bench.span()
    bench.exporter.flush()

    assert len(bench.upstream.calls) == 1
    assert bench.count("dropped") == 2
    bench.upstream.calls[0].answer(200)
    bench.exporter.flush()
    assert bench.count("exported") == 1
    assert len(spans_of(bench.upstream.calls[1].request.body)) == 3


def test_a_full_batch_that_waits_follows_the_one_before_at_once() -> None:
    bench = Bench(most=1000)
    for _ in range(300):
        bench.span()
    bench.exporter.flush()
    sent = 0
    while sent < len(bench.upstream.calls):
        bench.upstream.calls[sent].answer(200)
        sent += 1

    assert [len(spans_of(call.request.body)) for call in bench.upstream.calls] == [128, 128]
    assert bench.count("exported") == 256


def test_a_collector_that_refuses_or_is_gone_costs_spans_and_nothing_else() -> None:
    bench = Bench()
    bench.span()
    bench.exporter.flush()
    bench.upstream.calls[0].answer(503)
    bench.span()
    bench.exporter.flush()
    bench.upstream.calls[1].fail(UpstreamFailure.REFUSED)
    bench.span()
    bench.exporter.flush()
    bench.upstream.calls[2].answer(200)

    assert (bench.count("failed"), bench.count("exported"), bench.count("dropped")) == (2, 1, 0)


def test_what_waits_is_sent_before_the_end() -> None:
    bench = Bench()
    bench.span()

    async def scenario() -> None:
        closing = asyncio.create_task(bench.exporter.close())
        await asyncio.sleep(0)
        bench.upstream.calls[0].answer(200)
        await closing

    asyncio.run(scenario())

    assert bench.count("exported") == 1


@pytest.mark.parametrize("text", ["collector:4318", "https://collector:4318", "http://collector", "http://:"])
def test_an_endpoint_that_cannot_be_meant_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="http://"):
        parse_endpoint(text)


def test_without_an_endpoint_nothing_of_opentelemetry_is_loaded() -> None:
    program = (
        "import sys, inferplane_runtime.tracing.setup; print(sum(n.startswith('opentelemetry') for n in sys.modules))"
    )

    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert found.stdout.strip() == "0"
