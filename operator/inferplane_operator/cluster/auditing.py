"""When the store is compared with the cluster: until it is warm, then from time to time, and soon after any trouble."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

import structlog

from inferplane_operator.cluster.audit import Audit, Finding
from inferplane_operator.cluster.errors import ClusterError, ForbiddenError
from inferplane_operator.cluster.health import Health
from inferplane_operator.cluster.kinds import Kind
from inferplane_operator.cluster.metrics import OperatorMetrics

_log = structlog.get_logger("inferplane.operator")
_WARM_FIRST_S, _WARM_LIMIT_S = 0.2, 5.0
_TICK_S = 5.0


class Troubles(Protocol):
    """What may have made watches miss something."""

    def take(self) -> bool:
        """Say whether there was any since the last call."""
        ...


class Auditor:
    """`kinds` are those watched now; `restart` starts all watches anew."""

    def __init__(
        self,
        audit: Audit,
        *,
        kinds: Callable[[], tuple[Kind, ...]],
        restart: Callable[[], None],
        troubles: Troubles,
        health: Health,
        metrics: OperatorMetrics,
        period_s: float,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._audit = audit
        self._kinds = kinds
        self._restart = restart
        self._troubles = troubles
        self._health = health
        self._metrics = metrics
        self._period_s = period_s
        self._sleep = sleep
        self._restarted = False

    async def warm(self) -> None:
        """Return when the store has everything."""
        delay = _WARM_FIRST_S
        while True:
            findings = await self._compare() if self._kinds() else None
            if findings is not None:
                missing = sum(len(finding.missing) for finding in findings)
                if not missing:
                    self._health.warm = True
                    return
                self._health.waiting_for = f"{missing} objects that watches have not brought yet"
            await self._sleep(delay)
            delay = min(delay * 1.5, _WARM_LIMIT_S)

    async def run(self) -> None:
        """Compare until cancelled."""
        since = 0.0
        while True:
            await self._sleep(_TICK_S)
            since += _TICK_S
            if since < self._period_s and not self._troubles.take():
                continue
            findings = await self._compare()
            if findings is None:
                continue
            since = 0.0
            self._judge(findings)

    def _judge(self, findings: list[Finding]) -> None:
        for finding in findings:
            self._metrics.audited(finding.kind.kind, missing=len(finding.missing), stale=len(finding.stale))
            if finding.stale:
                _log.info("found gone", kind=finding.kind.kind, objects=len(finding.stale))
        stuck = ", ".join(self._audit.stuck(findings))
        if not stuck:
            self._health.stuck, self._restarted = "", False
            return
        if self._restarted:
            self._health.stuck = stuck
            _log.error("watches do not deliver", kinds=stuck)
            return
        self._restarted = True
        _log.warning("watches are started anew", kinds=stuck)
        self._restart()

    async def _compare(self) -> list[Finding] | None:
        """Compare all kinds; None where the API server does not let us."""
        try:
            return await self._audit.all(self._kinds())
        except ForbiddenError as error:  # a rule of RBAC is missing: waiting does not help, so it is said aloud
            _log.warning("not compared", problem=str(error))
            self._health.waiting_for = str(error)
        except ClusterError as error:
            _log.info("not compared", problem=str(error))
            self._health.waiting_for = str(error)
        return None
