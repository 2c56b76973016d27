"""An agent's control port, as whoever loads adapters sees it: one narrow seam.

Whatever goes wrong is part of the answer, in words; nothing is raised, and every question has a deadline.
"""

from dataclasses import dataclass
from typing import Any, Final, Protocol, cast
from urllib.parse import quote

import httpx

from inferplane_operator.reconcile.adapter import Reported, ReportedAdapter, WantedAdapter

_TIMEOUT_S: Final = 5.0
_WORDS: Final = 500


@dataclass(frozen=True, slots=True)
class Listing:
    """What an agent has; `problem` says why it did not answer."""

    adapters: tuple[ReportedAdapter, ...] = ()
    problem: str = ""


class AgentAdapters(Protocol):
    """One agent at a time, by host:port of its control listener."""

    async def list(self, address: str, /) -> Listing: ...

    async def load(self, address: str, adapter: WantedAdapter, /) -> str:
        """Tell it to have an adapter; return why it will not, "" when it will."""
        ...

    async def unload(self, address: str, name: str, /) -> str: ...


class HttpAgentAdapters:
    """Over HTTP."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def list(self, address: str) -> Listing:
        answer = await self._send("GET", f"http://{address}/adapters")
        if isinstance(answer, str):
            return Listing(problem=answer)
        found = answer.get("adapters")
        entries = cast("list[object]", found) if isinstance(found, list) else []
        return Listing(tuple(_entry(cast("dict[str, Any]", each)) for each in entries if isinstance(each, dict)))

    async def load(self, address: str, adapter: WantedAdapter) -> str:
        answer = await self._send("PUT", _url(address, adapter.name), body_of(adapter))
        return answer if isinstance(answer, str) else ""

    async def unload(self, address: str, name: str) -> str:
        answer = await self._send("DELETE", _url(address, name))
        return answer if isinstance(answer, str) else ""

    async def _send(self, method: str, url: str, body: dict[str, Any] | None = None) -> dict[str, Any] | str:
        """Return the answer's object, or what went wrong."""
        try:
            answer = await self._client.request(method, url, json=body, timeout=_TIMEOUT_S)
            found: object = answer.json()
        except httpx.HTTPError as error:
            return f"its agent does not answer ({type(error).__name__})"
        except ValueError:
            return "its agent gave no JSON"
        fields = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
        return fields if answer.is_success else _refusal(answer.status_code, fields)


def body_of(adapter: WantedAdapter) -> dict[str, Any]:
    source = {"hf": adapter.hf} if adapter.hf else {"path": adapter.path}
    secret = {"tokenFile": adapter.token_file} if adapter.token_file else {}
    return {**source, **secret, "revision": adapter.revision, "rank": adapter.rank}


def _url(address: str, name: str) -> str:
    return f"http://{address}/adapters/{quote(name, safe='')}"


def _entry(fields: dict[str, Any]) -> ReportedAdapter:
    state, serving = fields.get("state"), fields.get("serving")
    return ReportedAdapter(
        name=str(fields.get("name", "")),
        revision=str(fields.get("revision", "")),
        source=str(fields.get("source", "")),
        state=Reported(state) if state in list(Reported) else Reported.LOADING,
        error=str(fields.get("error", ""))[:_WORDS],
        serving=serving if isinstance(serving, str) else None,
    )


def _refusal(status: int, fields: dict[str, Any]) -> str:
    error: object = fields.get("error")
    message: object = cast("dict[str, Any]", error).get("message") if isinstance(error, dict) else None
    return str(message or f"its agent answered {status}")[:_WORDS]
