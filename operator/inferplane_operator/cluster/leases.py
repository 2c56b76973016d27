"""The operator's Lease, read and written as any other object."""

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any

from inferplane_operator.cluster.errors import AbsentError, ClusterError, ConflictError
from inferplane_operator.cluster.field_owners import APPLIER
from inferplane_operator.cluster.kinds import LEASE
from inferplane_operator.cluster.objects import Objects
from inferplane_runtime.kube.leadership import Lease, LeaseError, LeaseName, LeaseTakenError


@dataclass(frozen=True, slots=True)
class ObjectLeases:
    """Implements `Leases`."""

    objects: Objects
    name: LeaseName

    async def read(self) -> Lease | None:
        try:
            return await self.objects.read(LEASE, self.name.namespace, self.name.name)
        except AbsentError:
            return None
        except ClusterError as error:
            raise LeaseError(str(error)) from error

    async def create(self, lease: Lease) -> Lease:
        return await _written(self.objects.create(lease, manager=APPLIER))

    async def replace(self, lease: Lease) -> Lease:
        return await _written(self.objects.replace(lease, manager=APPLIER))


async def _written(write: Awaitable[Any]) -> Lease:
    try:
        found: Lease = await write
    except ConflictError as error:
        raise LeaseTakenError(str(error)) from error
    except ClusterError as error:
        raise LeaseError(str(error)) from error
    return found
