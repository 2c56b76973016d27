"""The document that a router's console is drawn from, asked for once."""

from typing import Any, cast

import httpx

from inferplane.errors import CommandError

_TIMEOUT_S = 5.0
_MISSING = 404


def console_state(url: str) -> dict[str, Any]:
    """Return `/console/state` of a gateway.  Raises CommandError."""
    address = f"{url.rstrip('/')}/console/state"
    try:
        answer = httpx.get(address, timeout=_TIMEOUT_S, trust_env=False)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise CommandError(f"{url}: does not answer ({error}); is that a gateway's address?") from error
    if answer.status_code == _MISSING:
        raise CommandError(f"{url}: its console is off; set `console: true` (`gateway.console` in the chart)")
    try:
        found: object = answer.raise_for_status().json()
    except (httpx.HTTPStatusError, ValueError) as error:
        raise CommandError(f"{address}: gives no state ({error})") from error
    if not isinstance(found, dict) or "services" not in found:
        raise CommandError(f"{address}: is not a router's console")
    return cast("dict[str, Any]", found)
