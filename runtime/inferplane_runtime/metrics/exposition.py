"""`/metrics` over the HTTP hot path, and what every process says of itself."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from inferplane_runtime.http.api import Exchange, Handler, Headers, Request, Response
from inferplane_runtime.http.errors import json_error
from inferplane_runtime.metrics.instruments import PageRegistry


def exposition_handler(registry: CollectorRegistry, *, refresh: Callable[[], None] | None = None) -> Handler:
    """Serve `registry` under `/metrics`; `refresh` sets gauges that are only known when asked for."""
    content = Headers(((b"content-type", CONTENT_TYPE_LATEST.encode()),))

    def handle(request: Request, exchange: Exchange) -> None:
        if request.path != b"/metrics":
            exchange.respond(json_error(404, "only /metrics is served here"))
            return
        if refresh is not None:
            refresh()
        exchange.respond(Response(200, content, page(registry)))

    return handle


def page(registry: CollectorRegistry) -> bytes:
    """Write everything that a registry holds."""
    if not isinstance(registry, PageRegistry):
        return generate_latest(registry)
    ours = "".join(line for instrument in registry.ours for line in instrument.lines())
    return ours.encode() + generate_latest(registry.others)


def register_process_metrics(registry: CollectorRegistry) -> None:
    """Add memory, CPU and file descriptors of this process."""
    ProcessCollector(registry=registry)
