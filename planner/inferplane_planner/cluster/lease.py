"""The planner's Lease over HTTP."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from inferplane_planner.cluster.owners import MANAGER
from inferplane_planner.cluster.scaling import Calls
from inferplane_runtime.kube.api import Call
from inferplane_runtime.kube.errors import AbsentError, ConflictError, KubeError
from inferplane_runtime.kube.leadership import Lease, LeaseError, LeaseName, LeaseTakenError

_MANAGED: Final = (("fieldManager", MANAGER),)


@dataclass(frozen=True, slots=True)
class KubeLeases:
    """Implements `Leases`."""

    api: Calls
    name: LeaseName

    async def read(self) -> Lease | None:
        try:
            return await self.api.call(Call("GET", self._path(self.name.name)))
        except AbsentError:
            return None
        except KubeError as error:
            raise LeaseError(str(error)) from error

    async def create(self, lease: Lease) -> Lease:
        return await self._write(Call("POST", self._path(), lease, _MANAGED))

    async def replace(self, lease: Lease) -> Lease:
        return await self._write(Call("PUT", self._path(self.name.name), lease, _MANAGED))

    async def _write(self, call: Call) -> Mapping[str, Any]:
        try:
            return await self.api.call(call)
        except ConflictError as error:
            raise LeaseTakenError(str(error)) from error
        except KubeError as error:
            raise LeaseError(str(error)) from error

    def _path(self, name: str = "") -> str:
        root = f"/apis/coordination.k8s.io/v1/namespaces/{self.name.namespace}/leases"
        return f"{root}/{name}" if name else root
