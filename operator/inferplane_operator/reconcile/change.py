"""What an edit would do, before anybody makes it: pure, from the functions that will carry it out.

Problem.  A person wants to know which Pods restart, what it takes meanwhile and what is lost; an answer from a second
description of the operator would be wrong sooner or later.
Idea.  The service as it is and as it would be are read as reconciling reads them; then the rollout's own steps are
taken, with Pods that start and end at once, and what happens on the way is noted.
Trade-off.  What the cluster will do meanwhile (no room, a canary that fails) is not foreseen.
Invariant.  An edit that changes nothing is answered with a change that is empty.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast

from inferplane_api.v1alpha1.stored import StoredObjectError
from inferplane_operator.reconcile.history import Hold
from inferplane_operator.reconcile.reading import annotations, section, text
from inferplane_operator.reconcile.rollout import PoolState, RevisionState, Rollout, plan
from inferplane_operator.reconcile.scene import Scene, Settings, set_scene, template_devices
from inferplane_operator.reconcile.service_status import served_names
from inferplane_operator.reconcile.values import Manifest, Observed
from inferplane_operator.reconcile.workers import victims
from inferplane_operator.render.adapter_need import offered_by
from inferplane_operator.render.errors import RenderError
from inferplane_operator.render.revision import made_of

_STEPS: Final = 20_000
Replicas = Mapping[tuple[str, str], int]


@dataclass(frozen=True, slots=True)
class Change:
    """What would happen; pools by name."""

    problem: str = ""
    """Why nothing would be done: the spec is invalid, the service paused or frozen, the revision failed before."""
    old_revision: str = ""
    new_revision: str = ""
    fields: tuple[str, ...] = ()
    """Fields of the spec because of which workers are replaced."""
    stops: tuple[str, ...] = ()
    """Pods that end, oldest revision first."""
    starts: Mapping[str, int] = field(default_factory=dict[str, int])
    """New Pods."""
    replicas: Mapping[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    """Workers wanted now and then, where they differ."""
    devices_now: int = 0
    devices_peak: int = 0
    """Of workers that serve or start, at most; each worker that still drains holds its own as well."""
    devices_after: int = 0
    cached_blocks_lost: int | None = None
    """KV blocks on Pods that end; None where they were not asked."""
    names_lost: tuple[str, ...] = ()
    names_gained: tuple[str, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether nothing at all would happen to workers and names."""
        return not (self.stops or self.starts or self.replicas or self.names_lost or self.names_gained)


def change(
    observed: Observed, wanted: Manifest, settings: Settings, *, cached_blocks: Mapping[str, int] | None = None
) -> Change:
    """Tell what happens if the service becomes `wanted`: the whole object, as an API server would store it.

    `observed.service` may be a service that does not exist yet (without a uid); `cached_blocks` are those of each Pod.
    """
    after = _as_wanted(observed, wanted)
    try:
        then = set_scene(after, settings)
    except (StoredObjectError, RenderError) as error:
        return Change(problem=str(error))
    now = _scene_now(observed, settings)
    journey = _travel(then)
    stops = _stops(then, journey)
    return Change(
        problem=_held(then),
        old_revision=now.target.revision if now is not None else "",
        new_revision=then.target.revision or then.rendered.revision,
        fields=_fields(now, then) if now is not None else (),
        stops=stops,
        starts=_starts(then, journey),
        replicas=_replicas(now, then),
        devices_now=journey.devices_now,
        devices_peak=journey.peak,
        devices_after=journey.devices_after,
        cached_blocks_lost=None if cached_blocks is None else sum(cached_blocks.get(name, 0) for name in stops),
        names_lost=_difference(now, then),
        names_gained=_difference(then, now),
    )


def _as_wanted(observed: Observed, wanted: Manifest) -> Observed:
    """Put the new object in the old one's place; its identity and what was observed of it stay."""
    before = observed.service
    metadata = {**before["metadata"], **{key: wanted["metadata"].get(key) for key in ("labels", "annotations")}}
    service = {**before, "metadata": metadata, "spec": wanted["spec"]}
    same = section(before, "spec", "model") == section(wanted, "spec", "model")
    return replace(observed, service=service, model_revision=observed.model_revision if same else "", canary=None)


def _scene_now(observed: Observed, settings: Settings) -> Scene | None:
    if not text(observed.service, "metadata", "uid"):
        return None
    try:
        return set_scene(observed, settings)
    except (StoredObjectError, RenderError):
        return None


def _held(then: Scene) -> str:
    if then.paused:
        return "the service is paused: nothing is done until the annotation inferplane.dev/paused is gone"
    match then.target.hold:
        case Hold.FROZEN:
            return "the service is frozen: workers are replaced once the annotation inferplane.dev/freeze is gone"
        case Hold.FAILED:
            return (
                f"revision {then.rendered.revision} failed before; another value of inferplane.dev/retry tries it again"
            )
        case Hold.UNRESOLVED:
            return "the model's revision is not resolved to a commit yet: workers are replaced once it is"
        case Hold.NONE:
            return ""


# ---- the way there


@dataclass(frozen=True, slots=True)
class _Journey:
    end: Replicas
    devices_now: int
    peak: int
    devices_after: int


def _travel(then: Scene) -> _Journey:
    """Take the rollout's steps until nothing moves, with Pods that start and end at once."""
    rollout = replace(then.rollout, pools=then.rollout.pools + _pools_to_come(then))
    now = peak = _devices(then, rollout)
    if then.paused or not then.target.revision:
        return _Journey(_told(rollout), now, peak, now)
    for _ in range(_STEPS):
        following = _step(rollout)
        peak = max(peak, _devices(then, following))
        if following == rollout:
            break
        rollout = following
    return _Journey(_told(rollout), now, peak, _devices(then, rollout))


def _step(rollout: Rollout) -> Rollout:
    replicas = plan(rollout).replicas
    return replace(rollout, pools=tuple(_moved(pool, replicas) for pool in rollout.pools))


def _moved(pool: PoolState, replicas: Replicas) -> PoolState:
    states = tuple(
        RevisionState(revision, count, count) for (name, revision), count in replicas.items() if name == pool.name
    )
    return replace(pool, revisions=states, pods=sum(state.replicas for state in states), short_of_room=False)


def _pools_to_come(then: Scene) -> tuple[PoolState, ...]:
    rollout = then.service.spec.rollout
    return tuple(
        PoolState(
            name=pool.name,
            wanted=pool.replicas,
            max_surge=rollout.max_surge,
            max_unavailable=rollout.max_unavailable,
            devices=pool.devices,
        )
        for pool in then.rendered.pools
        if pool.role in then.target.templates and then.pool(pool.role) is None
    )


def _told(rollout: Rollout) -> Replicas:
    return {(pool.name, state.revision): state.replicas for pool in rollout.pools for state in pool.revisions}


def _devices(then: Scene, rollout: Rollout) -> int:
    return sum(count * _devices_of(then, name, revision) for (name, revision), count in _told(rollout).items() if count)


def _devices_of(then: Scene, name: str, revision: str) -> int:
    """Return the devices of one worker; unlike a budget's, of this very revision."""
    if revision == then.rendered.revision:
        return next((pool.devices for pool in then.rendered.pools if pool.name == name), 0)
    pool = next(pool for pool in then.pools if pool["metadata"]["name"] == name)
    return template_devices(then.template(pool, revision))


# ---- what it means


def _stops(then: Scene, journey: _Journey) -> tuple[str, ...]:
    names: list[str] = []
    for pool in then.pools:
        living = [worker for worker in then.of_pool(pool) if worker.living]
        for revision in sorted({worker.revision for worker in living}, key=lambda each: each == then.target.revision):
            mine = [worker for worker in living if worker.revision == revision]
            kept = journey.end.get((str(pool["metadata"]["name"]), revision), 0)
            names += sorted(worker.name for worker in victims(mine, max(0, len(mine) - kept), then.failing_nodes))
    return tuple(names)


def _starts(then: Scene, journey: _Journey) -> dict[str, int]:
    there: dict[tuple[str, str], int] = {}
    for worker in then.workers:
        if worker.living:
            there[worker.pool, worker.revision] = there.get((worker.pool, worker.revision), 0) + 1
    starts: dict[str, int] = {}
    for (name, revision), count in journey.end.items():
        if (more := count - there.get((name, revision), 0)) > 0:
            starts[name] = starts.get(name, 0) + more
    return starts


def _replicas(now: Scene | None, then: Scene) -> dict[str, tuple[int, int]]:
    before = {str(pool["metadata"]["name"]): now.wanted(pool) for pool in now.pools} if now is not None else {}
    after = {pool.name: 0 if pool.retiring else pool.wanted for pool in then.rollout.pools + _pools_to_come(then)}
    if then.paused:
        return {}
    pairs = {name: (before.get(name, 0), after.get(name, 0)) for name in sorted({*before, *after})}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def _difference(one: Scene | None, other: Scene | None) -> tuple[str, ...]:
    mine, theirs = (served_names(scene) if scene is not None else [] for scene in (one, other))
    return tuple(name for name in mine if name not in theirs)


def _fields(now: Scene, then: Scene) -> tuple[str, ...]:
    if now.rendered.revision == then.rendered.revision:
        return ()
    before, after = (
        made_of(
            scene.service,
            offered_by(annotations(scene.rendered.pools[0].pod_template)),
            model_revision=scene.observed.model_revision or scene.service.spec.model.revision,
        )
        for scene in (now, then)
    )
    return tuple(_differing(before, after, "spec"))


def _differing(before: Any, after: Any, path: str) -> list[str]:
    if before == after:
        return []
    if not isinstance(before, dict) or not isinstance(after, dict):
        return [path]
    old, new = cast("dict[str, Any]", before), cast("dict[str, Any]", after)
    return [each for key in sorted({*old, *new}) for each in _differing(old.get(key), new.get(key), f"{path}.{key}")]
