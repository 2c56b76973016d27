"""The end of a worker without losing anything: refuse, wait for what runs, wait for what others still pull."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog

from inferplane_workers.agent.gate import Gate, Phase

_STEP_S = 0.05
_log = structlog.get_logger("inferplane.agent.drain")


@dataclass(frozen=True, slots=True)
class Left:
    """What a drain could not wait for."""

    requests: int
    transfers: int

    def __bool__(self) -> bool:
        return bool(self.requests or self.transfers)


class Drain:
    """One drain, however often it is asked for."""

    def __init__(
        self,
        *,
        gate: Gate,
        requests: Callable[[], int],
        transfers: Callable[[], int],
        now: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        timeout_s: float,
    ) -> None:
        self._gate = gate
        self._requests = requests
        self._transfers = transfers
        self._now = now
        self._sleep = sleep
        self._timeout_s = timeout_s
        self._began: float | None = None

    async def run(self) -> Left:
        """Begin, or join, the drain; return when it has ended."""
        if self._began is None:
            self._began = self._now()
            self._gate.move(Phase.DRAINING, "draining")
            _log.info("drain begins", requests=self._requests(), transfers=self._transfers())
        while self._now() - self._began < self._timeout_s:
            left = self._left()
            if self._gate.refusal() is not None and not left:
                break
            await self._sleep(_STEP_S)
        left = self._left()
        _log.info("drain ends", requests=left.requests, transfers=left.transfers)
        return left

    def _left(self) -> Left:
        return Left(self._requests(), self._transfers())
