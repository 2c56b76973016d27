"""Scaling a pool of a cluster through its scale subresource, as `kubectl scale`, an HPA or the planner do."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from inferplane.cluster import Connection, Object
from inferplane.errors import InvalidError, NotReadyError
from inferplane.kube import kinds
from inferplane.kube.fields import name_of, number, text
from inferplane.kube.kinds import Kind
from inferplane.kube.objects import find, get, items, merge
from inferplane.kube.picture import only_service

_POLL_S: Final = 1.0
_ROLES: Final[dict[str, Kind]] = {"prefill": kinds.PREFILL_POOLS, "decode": kinds.DECODE_POOLS}


@dataclass(frozen=True, slots=True)
class Pool:
    """A pool found by what somebody called it."""

    connection: Connection
    role: str
    found: Object

    @property
    def name(self) -> str:
        return name_of(self.found)

    @property
    def path(self) -> str:
        return _ROLES[self.role].path(self.connection.namespace, self.name)

    @property
    def replicas(self) -> int:
        return number(self.found, "spec", "replicas", default=1)


def find_pool(connection: Connection, called: str, service: str) -> Pool:
    """Find a pool by SERVICE/prefill, SERVICE-prefill, or prefill of `service`.  Raises InvalidError."""
    name = called.replace("/", "-")
    if name in _ROLES:
        name = f"{service or only_service(connection)}-{name}"
    role = name.rpartition("-")[2]
    found = find(connection.cluster, _ROLES[role], connection.namespace, name) if role in _ROLES else None
    if found is None:
        raise InvalidError(
            f"namespace {connection.namespace} has no pool {called!r}; there are: {_listing(connection)}"
        )
    return Pool(connection, role, found)


def _listing(connection: Connection) -> str:
    found = [it for kind in _ROLES.values() for it in items(connection.cluster, kind, connection.namespace)]
    names = sorted(f"{text(it, 'spec', 'service')}/{name_of(it).rpartition('-')[2]}" for it in found)
    return ", ".join(names) or "none"


def require_within(pool: Pool, replicas: int) -> None:
    """Stay within the service's bounds, as on one machine.  Raises InvalidError."""
    for field, beyond in (("maxReplicas", replicas.__gt__), ("minReplicas", replicas.__lt__)):
        bound = number(pool.found, "spec", field, default=1)
        if beyond(bound):
            word = "more" if field == "maxReplicas" else "less"
            raise InvalidError(
                f"{replicas} is {word} than {field} of {pool.name} ({bound}); "
                f"change spec.{pool.role}.{field} of the service first"
            )


def scale(pool: Pool, replicas: int) -> None:
    """Change a pool's replicas.  Raises ClusterError."""
    merge(pool.connection.cluster, f"{pool.path}/scale", {"spec": {"replicas": replicas}})


def wait_scaled(
    pool: Pool,
    replicas: int,
    timeout_s: float,
    tell: Callable[[str], None],
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Wait until exactly so many workers exist and serve.  Raises NotReadyError."""
    deadline, last = clock() + timeout_s, ""
    while True:
        found = get(pool.connection.cluster, _ROLES[pool.role], pool.connection.namespace, pool.name)
        exist, ready = number(found, "status", "replicas"), number(found, "status", "readyReplicas")
        said = f"{pool.name}: {ready} of {replicas} ready{f', {exist} exist' if exist != replicas else ''}"
        if said != last:
            tell(said)
        last = said
        current = number(found, "status", "observedGeneration") >= number(found, "metadata", "generation")
        if current and exist == ready == replicas:
            return
        if clock() > deadline:
            raise NotReadyError(
                f"{said} after {timeout_s:g} s; see `inferplane status {text(found, 'spec', 'service')}` for why, "
                "or wait longer with --timeout"
            )
        sleep(_POLL_S)
