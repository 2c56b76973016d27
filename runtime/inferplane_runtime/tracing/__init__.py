"""Traces: one request as a tree of spans, told to an OpenTelemetry collector.

Problem: metrics say that requests are slow, and not which step of this one was.
Idea: `context` reads and writes the W3C header by which processes join one trace, `span` is a step, `tracer` decides
which requests are traced, `otlp` writes spans as a collector reads them, `exporter` sends them in batches.
Trade-off: the values are our own and only the messages are OpenTelemetry's: its SDK sends from a thread with a blocking
client, which has no place in processes that fork and live in one loop, and a span of it costs more than a pick.
Invariant: a request that is not traced costs one comparison, and a collector that is gone costs spans, never requests.
"""
