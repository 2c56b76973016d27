"""Checks prefill peers by handing a prompt with a known answer over, through the whole path that a request takes.

The question fills blocks and is easy to go on with, so that a model's choice does not hang by a rounding.
It is asked of the own engine alone and through the peer; two different answers are asked for once more before the peer
is found wrong.
"""

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import orjson
import structlog

from inferplane_runtime.http.api import Headers, Request, Response
from inferplane_workers.agent import canary
from inferplane_workers.agent.config import AgentConfig
from inferplane_workers.agent.engine_client import EngineClient, NoAnswer, json_object
from inferplane_workers.agent.gate import Gate, Phase
from inferplane_workers.agent.peers import Peers

_LOOK_S = 1.0
_BLOCKS = 2
_log = structlog.get_logger("inferplane.agent.transfer")


class TransferWatch:
    """Runs until cancelled."""

    def __init__(
        self,
        *,
        config: AgentConfig,
        peers: Peers,
        gate: Gate,
        own: Callable[[], EngineClient],
        changed: Callable[[], None],
        now: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._config = config
        self._peers = peers
        self._gate = gate
        self._own = own
        """Asks this very agent, as a router does."""
        self._changed = changed
        self._now = now
        self._sleep = sleep

    async def run(self) -> None:
        while True:
            await self._sleep(_LOOK_S)
            address = self._peers.due(self._now())
            if address is not None and self._gate.phase is Phase.READY:
                await self._check(address)

    async def _check(self, address: str) -> None:
        good = await self._compare(address)
        if good is False:
            good = await self._compare(address)
        if not self._peers.judged(address, self._now(), good=good):
            return
        self._changed()
        if good:
            _log.warning("blocks from this prefill worker arrive unharmed again", address=address)
        else:
            _log.error("blocks from this prefill worker arrive damaged: it is not used", address=address)

    async def _compare(self, address: str) -> bool | None:
        """Say whether the answers with and without the peer are the same; None where one could not be had."""
        alone, _ = await self._ask("")
        handed, through = await self._ask(address)
        if alone is None or handed is None or not through:
            return None
        return alone == handed

    async def _ask(self, prefill: str) -> tuple[str | None, bool]:
        request_id = f"transfer-check-{uuid.uuid4().hex}"
        self._peers.begin(request_id)
        pairs = [(b"content-type", b"application/json"), (b"x-request-id", request_id.encode())]
        if prefill:
            pairs.append((b"x-inferplane-prefill", prefill.encode()))
        body = orjson.dumps(question(self._config.names[0], self._config.block_size, salt=request_id))
        request = Request(b"POST", b"/v1/completions", headers=Headers(tuple(pairs)), body=body)
        answer: Response | NoAnswer = await self._own().send(request, timeout_s=self._config.canary_timeout)
        fields = json_object(answer)
        through = isinstance(answer, Response) and answer.headers.get(b"x-inferplane-prefill-worker") is not None
        return (canary.answer_of(fields) if fields is not None else None), through


def question(model: str, block_size: int, *, salt: str) -> dict[str, Any]:
    """Return a request of at least two blocks; every number is a token or more."""
    prompt = " ".join(str(number) for number in range(1, _BLOCKS * block_size + canary.MAX_TOKENS))
    return {**canary.question(model, salt=salt), "prompt": prompt}
