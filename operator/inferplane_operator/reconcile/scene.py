"""One service at one moment, read and rendered: what planning, writing and the status all look at."""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from inferplane_api.catalogue import WorkerRole
from inferplane_api.v1alpha1 import InferenceService, KVStore, LoRAAdapter
from inferplane_api.v1alpha1.kv_store import KVStoreStatus
from inferplane_api.v1alpha1.stored import StoredObjectError, read_stored
from inferplane_operator.reconcile.alerting import RuleSettings
from inferplane_operator.reconcile.history import Entry, Target, entries
from inferplane_operator.reconcile.node_failures import failing_nodes
from inferplane_operator.reconcile.reading import annotations, listed, section, text
from inferplane_operator.reconcile.rollout import Plan, PoolState, RevisionState, Rollout, plan
from inferplane_operator.reconcile.targets import (
    FREEZE,
    PAUSED,
    Sources,
    current_revision,
    flag,
    role_of,
    target_of,
)
from inferplane_operator.reconcile.values import Manifest, Observed
from inferplane_operator.reconcile.workers import Worker, Workload, workers_of, workloads_of
from inferplane_operator.render import RenderOptions, render_service
from inferplane_operator.render.adapter_need import Present, offered_by
from inferplane_operator.render.fitting import check_memory
from inferplane_operator.render.multi_node import nodes_of
from inferplane_operator.render.objects import SERVICE_REPLICAS
from inferplane_operator.render.values import RenderedPool, RenderedService


@dataclass(frozen=True, slots=True)
class Settings:
    """What reconciling takes from the operator's own configuration."""

    options: RenderOptions = field(default_factory=RenderOptions)
    gateway_url: str = ""
    rules: RuleSettings = field(default_factory=RuleSettings)


@dataclass(frozen=True)
class Scene:
    observed: Observed
    settings: Settings
    service: InferenceService
    adapters: tuple[LoRAAdapter, ...]
    store: KVStore | None
    """The KVStore that the service names, where it can be read."""
    rendered: RenderedService
    known: Mapping[str, Entry]
    target: Target
    workers: tuple[Worker, ...]
    workloads: tuple[Workload, ...]

    @property
    def raw(self) -> Manifest:
        return self.observed.service

    @property
    def generation(self) -> int:
        return int(self.raw["metadata"].get("generation", 0))

    @property
    def status(self) -> Mapping[str, Any]:
        return section(self.raw, "status")

    @property
    def stable(self) -> str:
        return str(self.status.get("stableRevision") or "")

    @property
    def paused(self) -> bool:
        return flag(self.raw, PAUSED)

    @property
    def frozen(self) -> bool:
        return flag(self.raw, FREEZE)

    @property
    def pools(self) -> Sequence[Manifest]:
        """Pools that are not being deleted."""
        return [pool for pool in self.observed.pools if not pool["metadata"].get("deletionTimestamp")]

    def pool(self, role: WorkerRole) -> Manifest | None:
        return next((pool for pool in self.pools if role_of(pool) is role), None)

    def rendered_pool(self, role: WorkerRole) -> RenderedPool | None:
        return next((pool for pool in self.rendered.pools if pool.role is role), None)

    @property
    def lacks_pools(self) -> bool:
        """Whether a pool of the target is yet to be made; its workers come when it is there."""
        return not self.target.revision or any(self.pool(role) is None for role in self.target.templates)

    def of_pool(self, pool: Manifest) -> tuple[Worker, ...]:
        name = pool["metadata"]["name"]
        return tuple(worker for worker in self.workers if worker.pool == name)

    def wanted(self, pool: Manifest) -> int:
        """Return the workers wanted: the pool's own number, unless the service's changed since it was carried out."""
        moved = self.moved_replicas(pool)
        return int(pool["spec"].get("replicas", 0)) if moved is None else moved

    def moved_replicas(self, pool: Manifest) -> int | None:
        """Return the service's own number where it is another one than was carried out last."""
        rendered = self.rendered_pool(role_of(pool))
        done = annotations(pool).get(SERVICE_REPLICAS)
        if rendered is None or done is None or done == str(rendered.replicas):
            return None
        return rendered.replicas

    @cached_property
    def failing_nodes(self) -> tuple[str, ...]:
        return failing_nodes(self.workers, self.observed.now)

    @cached_property
    def rollout(self) -> Rollout:
        return Rollout(
            pools=tuple(self._state(pool) for pool in self.pools),
            target=self.target.revision,
            stable=self.stable,
            max_devices=self.service.spec.budget.max_devices,
            canary=self.observed.canary,
            frozen=self.frozen,
        )

    @cached_property
    def plan(self) -> Plan:
        return plan(self.rollout)

    def template(self, pool: Manifest, revision: str) -> Mapping[str, Any]:
        """Return the template of a revision's workers in a pool, {} where none is known."""
        role = role_of(pool)
        if revision == self.target.revision and role in self.target.templates:
            return self.target.templates[role]
        entry = self.known.get(revision)
        if entry is not None and role.value in entry.templates:
            return entry.templates[role.value]
        found = self.workload(pool, revision)
        return found.template if found is not None else {}

    def workload(self, pool: Manifest, revision: str, *, aside: bool = False) -> Workload | None:
        key = (str(pool["metadata"]["name"]), revision, aside)
        return next((each for each in self.workloads if (each.pool, each.revision, each.aside) == key), None)

    def devices(self, pool: Manifest) -> int:
        """Return the devices of one worker, of the revision that takes most: a budget has to hold meanwhile."""
        rendered, name = self.rendered_pool(role_of(pool)), pool["metadata"]["name"]
        running = [template_devices(each.template) for each in self.workloads if each.pool == name and each.replicas]
        return max([rendered.devices if rendered is not None else 0, *running])

    def _state(self, pool: Manifest) -> PoolState:
        workers, rollout = self.of_pool(pool), self.service.spec.rollout
        replicas: dict[str, int] = {}
        for each in self.workloads:
            if each.pool == pool["metadata"]["name"]:
                replicas[each.revision] = replicas.get(each.revision, 0) + each.replicas
        return PoolState(
            name=str(pool["metadata"]["name"]),
            wanted=self.wanted(pool),
            max_surge=rollout.max_surge,
            max_unavailable=rollout.max_unavailable,
            devices=self.devices(pool),
            revisions=tuple(
                RevisionState(revision, count, sum(worker.ready for worker in workers if worker.revision == revision))
                for revision, count in replicas.items()
            ),
            pods=sum(not worker.ended for worker in workers),
            short_of_room=any(worker.waits_for_room and worker.revision == self.target.revision for worker in workers),
            retiring=role_of(pool) not in self.target.templates,
        )


def set_scene(observed: Observed, settings: Settings) -> Scene:
    """Read and render.  Raises StoredObjectError and RenderError."""
    service = read_stored(InferenceService, observed.service)
    check_memory(service, observed.model_facts, settings.options.accelerators)
    adapters = tuple(_readable(observed.adapters))
    store = _store(observed)
    rendered = render_service(
        service,
        adapters=adapters,
        model_revision=observed.model_revision,
        options=settings.options,
        present=_present(observed),
        store=store,
    )
    known, workloads = entries(observed), workloads_of(observed)
    sources = Sources(rendered=rendered, known=known, pools=observed.pools, workloads=workloads)
    return Scene(
        observed=observed,
        settings=settings,
        service=service,
        adapters=adapters,
        store=store,
        rendered=rendered,
        known=known,
        target=target_of(service, observed, sources),
        workers=workers_of(observed),
        workloads=workloads,
    )


def _store(observed: Observed) -> KVStore | None:
    """Return the KVStore that the service names; None where there is none, or none that can be read."""
    if observed.kv_store is None or observed.kv_store["metadata"].get("deletionTimestamp"):
        return None
    with contextlib.suppress(StoredObjectError):
        store = read_stored(KVStore, observed.kv_store)
        # What is stored is read without its status; of a store's, the name of the Secret is as good as wanted.
        made = KVStoreStatus(integrity_secret=text(observed.kv_store, "status", "integritySecret") or None)
        return store.model_copy(update={"status": made})
    return None


def template_devices(template: Mapping[str, Any]) -> int:
    """Count the devices that a Pod template's worker takes: extended resources, on all of its nodes."""
    limits = [section(container, "resources", "limits") for container in listed(template, "spec", "containers")]
    named = [amount for limit in limits for name, amount in limit.items() if "/" in name]
    return sum(int(amount) for amount in named if str(amount).isdigit()) * nodes_of(template)


def _readable(found: Sequence[Manifest]) -> list[LoRAAdapter]:
    """Leave out what cannot be read; its own status says so."""
    adapters: list[LoRAAdapter] = []
    for each in found:
        if each["metadata"].get("deletionTimestamp"):
            continue
        try:
            adapters.append(read_stored(LoRAAdapter, each))
        except StoredObjectError:
            continue
    return adapters


def _present(observed: Observed) -> Present | None:
    revision = current_revision(observed.pools, section(observed.service, "status"))
    for pool in observed.pools:
        if revision and pool["spec"].get("revision") == revision:
            return Present(revision, offered_by(annotations(pool["spec"]["podTemplate"])))
    return None
