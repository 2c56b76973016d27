"""Headers that belong to one connection and end with it (RFC 9110, section 7.6.1).

A proxy that passes them on lets a client talk about a connection that is not its own, and breaks its own framing.
"""

from typing import Final

from inferplane_runtime.http.api import Headers

HOP_BY_HOP: Final = frozenset(
    (
        b"connection",
        b"content-length",
        b"expect",
        b"host",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    )
)
"""The standard's, and what an HTTP client writes itself."""


def named_by_connection(headers: Headers) -> frozenset[bytes]:
    """Return the names that `Connection` headers list: they, too, are meant for this connection alone."""
    lists = [value for name, value in headers.pairs if name == b"connection"]
    if not lists:
        return frozenset()
    return frozenset(option.strip().lower() for value in lists for option in value.split(b","))
