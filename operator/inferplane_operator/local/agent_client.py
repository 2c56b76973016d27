"""What the runner asks of a worker's agent and of the router: are you ready, and please drain.

A process that does not answer is not ready; why is part of the answer, never an exception.
"""

from dataclasses import dataclass
from typing import Protocol, cast

import httpx

_PROBE_TIMEOUT_S = 2.0
_DRAIN_MARGIN_S = 5.0
"""An agent bounds its own drain; this much later it is taken for hung."""
_REASON_LENGTH = 300


@dataclass(frozen=True, slots=True)
class Readiness:
    """`reason` says why not, in words."""

    ready: bool
    reason: str = ""
    restart: bool = False
    """The engine hangs or computes wrongly: only a new start would help."""
    catalogue: int = 0
    """The number of the catalogue that a router routes by."""


class Probe(Protocol):
    async def ready(self, address: str, /) -> Readiness: ...

    async def healthy(self, address: str, /) -> bool:
        """Say whether an engine answers."""
        ...

    async def drain(self, address: str, /, *, timeout_s: float) -> str:
        """Block until the agent has drained; return what went wrong, or nothing."""
        ...


class HttpProbe:
    """Over HTTP, at host:port."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def ready(self, address: str) -> Readiness:
        try:
            answer = await self._client.get(f"http://{address}/ready", timeout=_PROBE_TIMEOUT_S)
        except httpx.ConnectError:
            return Readiness(ready=False, reason="does not listen yet")
        except httpx.HTTPError as error:
            return Readiness(ready=False, reason=f"does not answer ({type(error).__name__})")
        if answer.is_success:
            return Readiness(ready=True, catalogue=_whole(_fields(answer).get("catalogue")))
        reason = _message(answer) or f"answers {answer.status_code}"
        return Readiness(ready=False, reason=reason, restart=_fields(answer).get("restart") is True)

    async def healthy(self, address: str) -> bool:
        try:
            answer = await self._client.get(f"http://{address}/health", timeout=_PROBE_TIMEOUT_S)
        except httpx.HTTPError:
            return False
        return answer.is_success

    async def drain(self, address: str, *, timeout_s: float) -> str:
        try:
            answer = await self._client.post(f"http://{address}/drain", timeout=timeout_s + _DRAIN_MARGIN_S)
        except httpx.HTTPError as error:
            return f"{type(error).__name__}: {error}"
        return "" if answer.is_success else f"answered {answer.status_code}: {_message(answer)}"


def _fields(answer: httpx.Response) -> dict[str, object]:
    try:
        found: object = answer.json()
    except ValueError:
        return {}
    return cast("dict[str, object]", found) if isinstance(found, dict) else {}


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0


def _message(answer: httpx.Response) -> str:
    """Take the message out of an error object, or the text as it is."""
    fields = _fields(answer)
    error = fields.get("error")
    if isinstance(error, dict):
        return str(cast("dict[str, object]", error).get("message", ""))[:_REASON_LENGTH]
    told = next((fields[key] for key in ("reason", "detail", "message") if isinstance(fields.get(key), str)), "")
    return str(told or answer.text.strip())[:_REASON_LENGTH]
