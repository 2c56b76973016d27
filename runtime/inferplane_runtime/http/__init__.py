"""HTTP/1.1 on the hot path: a server and a client of a few calls each, without a task per request.

The gateway, the worker agent and the simulated engine stand on the same two halves.  A handler is an ordinary function:
it gets a complete request and an exchange to answer on, and may answer at once, later, or by relaying what an upstream
sends.  Nothing here knows about models or routing.
"""

from inferplane_runtime.http.api import (
    Call,
    Exchange,
    Handler,
    Headers,
    Limits,
    Request,
    Response,
    ResponseHead,
    ResponseSink,
    Upstream,
    UpstreamFailure,
)
from inferplane_runtime.http.client import UpstreamPool
from inferplane_runtime.http.errors import json_error
from inferplane_runtime.http.server import HttpServer
from inferplane_runtime.http.sse import SseSplitter, event_data

__all__ = [
    "Call",
    "Exchange",
    "Handler",
    "Headers",
    "HttpServer",
    "Limits",
    "Request",
    "Response",
    "ResponseHead",
    "ResponseSink",
    "SseSplitter",
    "Upstream",
    "UpstreamFailure",
    "UpstreamPool",
    "event_data",
    "json_error",
]
