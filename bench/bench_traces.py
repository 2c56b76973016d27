"""What tracing costs a gateway, as a ratio within one run: CPU of a request with traces against one without.

    python bench/bench_traces.py [--requests 100] [--rounds 300] [--ratio 0.01]

The gateway is the real one from the parsed request to the written answer; sockets, the core and the engine are played,
so what is left is smaller than a request really is, and the ratio larger.  Writing and sending spans is counted in.
Short rounds alternate, and the median of their ratios is told; the last line is JSON.
"""

import argparse
import json
import time
from random import Random
from statistics import median

import orjson

from inferplane_api.catalogue import CatalogueService
from inferplane_router.gateway.data_plane import DataPlane
from inferplane_router.gateway.forward import ForwardContext
from inferplane_router.gateway.headers import HeaderWriter, id_source
from inferplane_router.gateway.http import Gateway
from inferplane_router.gateway.meters import GatewayMeters
from inferplane_router.gateway.testing import ByteEncoder, NotedAnnouncements, ScriptedCore
from inferplane_runtime.clock import SystemClock
from inferplane_runtime.http.api import Headers, Request, ResponseHead
from inferplane_runtime.http.testing import PlayedUpstream, RecordedExchange
from inferplane_runtime.metrics.catalogue.tracing import SPANS
from inferplane_runtime.metrics.instruments import Cells, Instruments
from inferplane_runtime.tracing.exporter import SpanExporter
from inferplane_runtime.tracing.tracer import Tracer

CHUNKS = 32
BODY = orjson.dumps({"model": "m", "stream": True, "messages": [{"role": "user", "content": "a word " * 100}]})
HEADERS = Headers(
    (
        (b"host", b"gateway"),
        (b"user-agent", b"bench"),
        (b"accept", b"*/*"),
        (b"content-type", b"application/json"),
        (b"authorization", b"Bearer x"),
        (b"content-length", b"1200"),
    )
)
SSE = ResponseHead(200, Headers(((b"content-type", b"text/event-stream"),)))


class Side:
    """One gateway on played neighbours."""

    def __init__(self, ratio: float | None) -> None:
        clock = SystemClock()
        self.core = ScriptedCore({"m": CatalogueService(name="s", served_names=("m",))})
        self.upstream, self.collector = PlayedUpstream(), PlayedUpstream()
        meters = GatewayMeters(Instruments())
        plane = DataPlane(
            core=self.core,
            prompts=ByteEncoder(),
            announcer=NotedAnnouncements(),
            clock=clock,
            draw_id=id_source(bytes),
            meters=meters,
        )
        self.exporter = SpanExporter(
            "http://collector:4318/v1/traces",
            upstream=self.collector,
            resource={"service.name": "bench"},
            clock=clock,
            counted=Cells(SPANS),
        )
        rng = Random(1)  # noqa: S311 - the same requests each time
        tracer = None if ratio is None else Tracer(ratio=ratio, rng=rng, ended=self.exporter.take)
        context = ForwardContext(plane, self.upstream, HeaderWriter(subscriber_epoch=1), meters, tracer)
        self.gateway = Gateway(context, unready=str, catalogue=int)

    def run(self, requests: int) -> float:
        """Return CPU seconds a request."""
        begun = time.process_time()
        for _ in range(requests):
            self._one()
        self.exporter.flush()
        for call in self.collector.calls:
            call.answer(200)
        self.collector.calls.clear()
        return (time.process_time() - begun) / requests

    def _one(self) -> None:
        self.gateway(Request(b"POST", b"/v1/chat/completions", headers=HEADERS, body=BODY), RecordedExchange())
        sink = self.upstream.calls.pop().sink
        sink.on_head(SSE)
        for _ in range(CHUNKS):
            sink.on_body(b'data: {"choices": [{"delta": {"content": "word"}}]}\n\n')
        sink.on_end()
        self.core.asks.clear()
        self.core.completed.clear()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--requests", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--ratio", type=float, default=0.01)
    given = parser.parse_args()
    plain, traced = Side(None), Side(given.ratio)
    plain.run(given.requests)
    traced.run(given.requests)
    rounds = [(plain.run(given.requests), traced.run(given.requests)) for _ in range(given.rounds)]
    ratio = median(with_traces / without for without, with_traces in rounds)
    print(f"{CHUNKS} chunks a request, {given.ratio:.0%} of the requests traced, {given.rounds} rounds")
    print(
        f"without {median(w for w, _ in rounds) * 1e6:.1f} us a request, with {median(w for _, w in rounds) * 1e6:.1f}"
    )
    print(json.dumps({"bench": "traces", "ratio": round(ratio, 4), "traced": given.ratio, "bar": 1.05}))


if __name__ == "__main__":
    main()
