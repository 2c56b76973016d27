"""A pool scaled through its scale subresource, unless somebody else was there first.

The replicas that a plan was made from are compared with those that there are, and the write names the version that was
compared: whoever scales in between wins, and the next round sees it.
"""

from collections.abc import Mapping
from typing import Any, Final, Protocol

from inferplane_planner.act.world import WorldError
from inferplane_planner.cluster.kinds import DECODE_POOL, PREFILL_POOL
from inferplane_planner.cluster.owners import MANAGER
from inferplane_planner.cluster.records import PoolRecord
from inferplane_runtime.kube.api import Call
from inferplane_runtime.kube.errors import ConflictError, KubeError

_MERGE: Final = "application/merge-patch+json"
_KINDS: Final = {"prefill": PREFILL_POOL, "decode": DECODE_POOL}


class Calls(Protocol):
    """How single objects are read and written; every failure is a `KubeError`."""

    async def call(self, call: Call) -> Mapping[str, Any]: ...


async def scale(api: Calls, role: str, pool: PoolRecord, replicas: int) -> None:
    """Set the replicas of a pool that is as it was seen.  Raises WorldError."""
    path = f"{_KINDS[role].path(pool.key.namespace)}/{pool.key.name}/scale"
    try:
        now = await api.call(Call("GET", path))
        found = int(now["spec"].get("replicas", 0))
        if found != pool.replicas or str(now["metadata"].get("uid", pool.uid)) != pool.uid:
            raise WorldError(f"{pool.key.name} has been scaled to {found} by somebody else in this moment")
        patch = {
            "metadata": {"resourceVersion": now["metadata"]["resourceVersion"]},
            "spec": {"replicas": replicas},
        }
        await api.call(Call("PATCH", path, patch, (("fieldManager", MANAGER),), _MERGE))
    except ConflictError as error:
        raise WorldError(f"{pool.key.name} has changed in this moment, and is looked at again") from error
    except KubeError as error:
        raise WorldError(f"{pool.key.name} cannot be scaled to {replicas}: {error}") from error
