"""Where spans are sent, and of how many requests."""

from dataclasses import dataclass

from inferplane_runtime.http.client import split_address
from inferplane_runtime.settings import setting

_PATH = "/v1/traces"


def parse_endpoint(text: str) -> str:
    """Check `http://HOST:PORT[/PATH]`; the path is OTLP's own where none is given."""
    if not text:
        return ""
    scheme, _, rest = text.partition("://")
    if scheme != "http":
        raise ValueError(f"{text!r} is not http://HOST:PORT: a collector in the cluster takes spans and does the TLS")
    address, slash, path = rest.partition("/")
    try:
        split_address(address)
    except ValueError:
        raise ValueError(f"{text!r} has no port: write http://{address or 'HOST'}:4318") from None
    return f"http://{address}{slash}{path}" if path else f"http://{address}{_PATH}"


@dataclass(frozen=True, slots=True)
class Tracing:
    """Where traces go; nothing is traced without an endpoint."""

    endpoint: str = setting(help="OTLP over HTTP, as http://HOST:4318; empty: off", default="", parse=parse_endpoint)
    ratio: float = setting(
        help="share of the requests that are traced where their client does not say", default=0.01, minimum=0, maximum=1
    )
