"""Asking a gateway for a prompt that nobody waits for: behind all other requests, and again when it has no room."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

import httpx

from inferplane.warming import Answer, Refusal, Wanted

_OK: Final = 200
_BUSY: Final = (429, 503)
_LAST_PRIORITY: Final = {"x-inferplane-priority": "-100"}
_TRIES: Final = 20
_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class PatientGateway:
    """`client` has the gateway's address as its base."""

    client: httpx.AsyncClient
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep

    async def ask(self, wanted: Wanted, /) -> Answer | Refusal:
        """Ask until there is an answer, or a refusal that will not pass."""
        said = Refusal("it was not asked")
        for _ in range(_TRIES):
            try:
                reply = await self.client.post(wanted.path, json=dict(wanted.body), headers=_LAST_PRIORITY)
            except httpx.HTTPError as error:
                return Refusal(f"the gateway does not answer: {error or type(error).__name__}")
            if reply.status_code == _OK:
                return _answer(reply)
            said = Refusal(f"the gateway says {reply.status_code}: {_reason(reply)}")
            if reply.status_code not in _BUSY:
                return said
            await self.sleep(_pause_s(reply))
        return said


def _answer(reply: httpx.Response) -> Answer | Refusal:
    try:
        usage: dict[str, Any] = reply.json()["usage"]
        details: dict[str, Any] = usage.get("prompt_tokens_details") or {}
        return Answer(int(usage["prompt_tokens"]), int(details.get("cached_tokens") or 0))
    except (ValueError, KeyError, TypeError, AttributeError):
        return Refusal("the answer does not say how many tokens the prompt has")


def _reason(reply: httpx.Response) -> str:
    try:
        return str(reply.json()["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return reply.text[:200]


def _pause_s(reply: httpx.Response) -> float:
    """Return how long to wait, as the gateway says it."""
    try:
        return min(_LONGEST_PAUSE_S, max(0.0, float(reply.headers["retry-after"])))
    except (KeyError, ValueError):
        return _PAUSE_S
