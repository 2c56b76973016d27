"""A tracer and its exporter, made of the settings; nothing, and nothing imported, where tracing is off."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from inferplane_runtime.clock import Clock
from inferplane_runtime.http.api import Upstream
from inferplane_runtime.metrics.instruments import Cells
from inferplane_runtime.tracing.config import Tracing
from inferplane_runtime.tracing.tracer import Tracer

if TYPE_CHECKING:
    from inferplane_runtime.tracing.exporter import SpanExporter


@dataclass(frozen=True, slots=True)
class Traces:
    """What a process that traces has."""

    tracer: Tracer
    exporter: "SpanExporter"


def make_traces(
    settings: Tracing, *, upstream: Upstream, resource: Mapping[str, str], clock: Clock, counted: Cells
) -> Traces | None:
    """Return what traces requests; None where there is no endpoint.

    `resource` says in OpenTelemetry's words what this process is.
    """
    if not settings.endpoint:
        return None
    from inferplane_runtime.tracing.exporter import SpanExporter  # noqa: PLC0415 - only where it is asked for

    exporter = SpanExporter(settings.endpoint, upstream=upstream, resource=resource, clock=clock, counted=counted)
    rng = Random(os.urandom(16))  # noqa: S311 - ids of spans, nothing secret
    return Traces(Tracer(ratio=settings.ratio, rng=rng, ended=exporter.take), exporter)
