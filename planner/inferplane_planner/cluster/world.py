"""One service of a cluster as a world to plan for; looking costs nothing, since everything is watched."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from inferplane_api.claims import Key
from inferplane_api.v1alpha1.inference_service import InferenceServiceSpec, ScalingMode
from inferplane_planner.act.priors import Calibrations
from inferplane_planner.act.wishes import PLANNED, Prices, spec_of
from inferplane_planner.act.world import Findings, Sight, WorldError
from inferplane_planner.cluster.kinds import INFERENCE_SERVICE
from inferplane_planner.cluster.owners import MANAGER, LastWords, other_owner
from inferplane_planner.cluster.records import PoolRecord, ServiceRecord
from inferplane_planner.cluster.scaling import Calls, scale
from inferplane_planner.cluster.tables import Tables
from inferplane_planner.cluster.telling import applied, rfc3339, says_more, told
from inferplane_planner.core.contract import NOBODY, Spec, Workers
from inferplane_planner.core.errors import PlanningError
from inferplane_runtime.kube.api import Call
from inferplane_runtime.kube.errors import AbsentError, KubeError
from inferplane_runtime.kube.leadership import NotLeadingError

_START_UP_S: Final = 120.0
"""Until one was measured: images, weights, compilation."""
_APPLY: Final = "application/apply-patch+yaml"


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What is known of engines and prices, for all services."""

    period_s: float
    prices: Prices
    calibrations: Calibrations


@dataclass(frozen=True, slots=True)
class Permission:
    """Who may write: `leads` says whether we do, `check` raises NotLeadingError where we do not for certain."""

    leads: Callable[[], bool]
    check: Callable[[], None]


@dataclass(slots=True)
class KubeWorld:
    """`now` is the planner's clock, `wall` the time of day, both in seconds."""

    key: Key
    tables: Tables
    api: Calls
    knowledge: Knowledge
    permission: Permission
    now: Callable[[], float]
    wall: Callable[[], float]
    _waiting: dict[str, float] = field(default_factory=dict[str, float])
    _started: dict[str, str] = field(default_factory=dict[str, str])
    _last_words: LastWords = field(default_factory=LastWords)

    async def look(self) -> Sight:
        record, wanted = self._record()
        pools = {role: self.tables.pool(record, role) for role in ("prefill", "decode")}
        mode = wanted.scaling.mode
        return Sight(
            service=f"{self.key.namespace}/{self.key.name}",
            spec=self._spec(wanted),
            decode=self._workers("decode", record, pools["decode"]),
            prefill=self._workers("prefill", record, pools["prefill"]),
            routers=self.tables.routers,
            planned=mode in PLANNED and pools["decode"] is not None,
            acting=mode is ScalingMode.SLO and self.permission.leads(),
            window_s=wanted.slo.window_s,
            start_ups_s=tuple(took for role, pool in pools.items() for took in self._start_ups(role, pool)),
            namespace=self.key.namespace,
        )

    async def scale(self, role: str, replicas: int) -> None:
        record, _ = self._record()
        pool = self.tables.pool(record, role)
        if pool is None:
            raise WorldError(f"there is no {role} pool to scale")
        self._allowed()
        await scale(self.api, role, pool, replicas)

    async def tell(self, findings: Findings, sight: Sight) -> None:
        if not self.permission.leads():
            return
        record, _ = self._record()
        now = rfc3339(self.wall())
        said = told(findings, sight, at=now)
        if not says_more(said, record.told, now=now):
            return
        self._allowed()
        path = f"{INFERENCE_SERVICE.path(self.key.namespace)}/{self.key.name}/status"
        query = (("fieldManager", MANAGER), ("force", "true"))
        try:
            await self.api.call(Call("PATCH", path, applied(record, said), query, _APPLY))
        except AbsentError:
            return  # its deletion is on its way here
        except KubeError as error:
            raise WorldError(f"the status cannot be written: {error}") from error

    # Inside.

    def _record(self) -> tuple[ServiceRecord, InferenceServiceSpec]:
        record = self.tables.service(self.key)
        if record is None:
            raise WorldError("there is no such service any more")
        if record.spec is None:
            raise WorldError(f"it cannot be planned: {record.problem}")
        return record, record.spec

    def _spec(self, wanted: InferenceServiceSpec) -> Spec:
        known = self.knowledge
        try:
            return spec_of(
                wanted,
                prices=known.prices,
                calibrations=known.calibrations,
                period_s=known.period_s,
                start_up_s=_START_UP_S,
                wall_s=self.wall(),
            )
        except PlanningError as error:
            raise WorldError(str(error)) from error

    def _workers(self, role: str, service: ServiceRecord, pool: PoolRecord | None) -> Workers:
        if pool is None or not pool.waits_for:
            self._waiting.pop(role, None)
        else:
            self._waiting.setdefault(role, self.now())
        if pool is None:
            return NOBODY
        owner = other_owner(service, self._last_words.dated(pool, rfc3339(self.wall())))
        return Workers(pool.replicas, pool.ready, self._waiting.get(role), owner)

    def _start_ups(self, role: str, pool: PoolRecord | None) -> tuple[float, ...]:
        """Return how long the worker took that became ready since the look before."""
        if pool is None or not pool.started or self._started.get(role) == pool.started:
            return ()
        self._started[role] = pool.started
        return (pool.start_up_s,)

    def _allowed(self) -> None:
        try:
            self.permission.check()
        except NotLeadingError as error:
            raise WorldError(str(error)) from error
