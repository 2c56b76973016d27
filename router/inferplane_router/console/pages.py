"""What `/console` answers.

The page is a few files of the package, read once; it asks for its data again and again, so nothing is held for it.
Invariant: neither prompts nor answers are in what it shows, since routers do not keep them.
"""

from importlib.resources import files
from typing import Final
from urllib.parse import unquote

import orjson

from inferplane_runtime.http.api import Headers, Response
from inferplane_runtime.http.errors import json_error

STATE: Final = b"/console/state"
_REQUESTS: Final = b"/console/requests/"
_FILES: Final = {
    b"/console": ("console.html", b"text/html; charset=utf-8"),
    b"/console/console.css": ("console.css", b"text/css; charset=utf-8"),
    b"/console/console.js": ("console.js", b"text/javascript; charset=utf-8"),
    b"/console/draw.js": ("draw.js", b"text/javascript; charset=utf-8"),
    b"/console/request.js": ("request.js", b"text/javascript; charset=utf-8"),
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
    """Answers the page's own files."""

    def __init__(self) -> None:
        folder = files("inferplane_router.console") / "page"
        self._files = {
            path: Response(200, Headers(((b"content-type", kind), *_GUARDED)), (folder / name).read_bytes())
            for path, (name, kind) in _FILES.items()
        }

    def answer(self, path: bytes) -> Response | None:
        """Answer a path; None where there is no file."""
        return self._files.get(path.rstrip(b"/"))


def requested(path: bytes) -> str | None:
    """Return the id of the request that a path asks about, if it does."""
    if not path.startswith(_REQUESTS):
        return None
    return unquote(path.removeprefix(_REQUESTS).decode("latin-1"))


def no_such_request(request_id: str) -> Response:
    return json_error(404, f"no decision of {request_id!r} is kept: it was another router's, or long ago")


def json_page(document: object) -> Response:
    """Show a document as JSON, under the page's guards."""
    headers = Headers(((b"content-type", b"application/json"), *_GUARDED))
    return Response(200, headers, orjson.dumps(document))
