"""What `/console` answers.

The page is three files of the package, read once; it asks for its data again and again, so nothing is held for it.
Invariant: neither prompts nor answers are in what it shows, since routers do not keep them.
"""

from collections.abc import Callable
from importlib.resources import files
from typing import Final
from urllib.parse import unquote

import orjson
from google.protobuf.json_format import MessageToDict

from inferplane_api.proto.router_pb2 import DecisionRecord
from inferplane_router.console.picture import Document
from inferplane_runtime.http.api import Headers, Response
from inferplane_runtime.http.errors import json_error

ROOT: Final = b"/console"
_FILES: Final = {
    b"/console": ("console.html", b"text/html; charset=utf-8"),
    b"/console/console.css": ("console.css", b"text/css; charset=utf-8"),
    b"/console/console.js": ("console.js", b"text/javascript; charset=utf-8"),
}
_POLICY: Final = (
    b"default-src 'none'",
    b"script-src 'self'",
    b"style-src 'self'",
    b"connect-src 'self'",
    b"base-uri 'none'",
    b"form-action 'none'",
    b"frame-ancestors 'none'",
)
_GUARDED: Final = (
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"content-security-policy", b"; ".join(_POLICY)),
)


class Pages:
    """Answers every path below `/console`."""

    def __init__(self, *, picture: Callable[[], Document], explain: Callable[[str], DecisionRecord | None]) -> None:
        folder = files("inferplane_router.console") / "page"
        self._files = {
            path: Response(200, Headers(((b"content-type", kind), *_GUARDED)), (folder / name).read_bytes())
            for path, (name, kind) in _FILES.items()
        }
        self._picture = picture
        self._explain = explain

    def answer(self, path: bytes) -> Response | None:
        """Answer a path; None where there is nothing."""
        if path == b"/console/state":
            return _json(self._picture())
        if path.startswith(b"/console/requests/"):
            return self._request(unquote(path.removeprefix(b"/console/requests/").decode("latin-1")))
        return self._files.get(path.rstrip(b"/"))

    def _request(self, request_id: str) -> Response:
        record = self._explain(request_id)
        if record is None:
            return json_error(404, f"no decision of {request_id!r} is kept: it was another router's, or long ago")
        return _json(MessageToDict(record))


def _json(document: object) -> Response:
    headers = Headers(((b"content-type", b"application/json"), *_GUARDED))
    return Response(200, headers, orjson.dumps(document))
