"""Which of the kinds the API server has.

The custom resources may come after the operator (a chart applies both), and may go while it runs.
"""

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from inferplane_operator.cluster.errors import AbsentError, ClusterError
from inferplane_operator.cluster.kinds import BUILT_IN, LEADER_WORKER_SET, OPTIONAL, OURS, PROMETHEUS_RULE, Kind
from inferplane_operator.cluster.objects import Objects

_log = structlog.get_logger("inferplane.operator")
_FIRST_S, _LIMIT_S = 1.0, 30.0


async def missing_kinds(objects: Objects) -> list[str]:
    """Return the plurals of our kinds that the API server does not have."""
    try:
        known = await objects.plurals(OURS[0].api_version)
    except AbsentError:
        known = frozenset[str]()
    return [kind.plural for kind in OURS if kind.plural not in known]


async def wait_for_kinds(objects: Objects, *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
    """Return when all of our kinds are there; say what is missing."""
    delay, said = _FIRST_S, ""
    while True:
        try:
            missing = await missing_kinds(objects)
            problem = f"no custom resource definition of {', '.join(missing)}; install the chart" if missing else ""
        except ClusterError as error:
            problem = str(error)
        if not problem:
            return
        if problem != said:
            _log.warning("waiting for the cluster", problem=problem)
            said = problem
        await sleep(delay)
        delay = min(delay * 2, _LIMIT_S)


async def watched_kinds(objects: Objects, *, rules: bool = False) -> tuple[Kind, ...]:
    """Return everything that is watched in this cluster; `rules`: alerts of services are made where it has them."""
    groups = OPTIONAL if await _has(objects, LEADER_WORKER_SET) else ()
    alerts = (PROMETHEUS_RULE,) if rules and await _has(objects, PROMETHEUS_RULE) else ()
    return OURS + BUILT_IN + groups + alerts


async def _has(objects: Objects, kind: Kind) -> bool:
    try:
        return kind.plural in await objects.plurals(kind.api_version)
    except AbsentError:
        return False
