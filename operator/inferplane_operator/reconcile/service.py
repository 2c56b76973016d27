"""One InferenceService: everything known about it in, everything to be written out."""

from collections.abc import Iterable

from inferplane_api.v1alpha1.stored import StoredObjectError
from inferplane_operator.reconcile.alerting import rule_writes
from inferplane_operator.reconcile.history import history_writes, superseded
from inferplane_operator.reconcile.objective import OBSERVED, silent_in_s
from inferplane_operator.reconcile.pool import pool_writes, worker_writes
from inferplane_operator.reconcile.pool_status import picture_of, pool_status
from inferplane_operator.reconcile.progress import progress_of
from inferplane_operator.reconcile.scene import Scene, Settings, set_scene
from inferplane_operator.reconcile.service_status import ServicePicture, invalid_status, service_status
from inferplane_operator.reconcile.statuses import reference_to, status_patch, transitions
from inferplane_operator.reconcile.targets import role_of
from inferplane_operator.reconcile.values import Delete, Manifest, Observed, Outcome, Write
from inferplane_operator.reconcile.workers import longest_wait_for_room_s
from inferplane_operator.render.errors import RenderError


def service(observed: Observed, settings: Settings) -> Outcome:
    """Return what has to be done for a service now."""
    if observed.service["metadata"].get("deletionTimestamp"):
        return Outcome()  # its owner references take everything along
    try:
        scene = set_scene(observed, settings)
    except (StoredObjectError, RenderError) as error:
        return _refused(observed, str(error))
    writes = () if scene.paused else tuple(_writes(scene))
    return _told(scene, writes)


def _writes(scene: Scene) -> list[Write]:
    if not scene.target.revision:
        return []
    history = list[Write]()
    if scene.target.revision == scene.rendered.revision:
        used = {each.revision for each in scene.workloads} | {scene.stable, scene.target.revision}
        commit = scene.observed.model_revision or scene.service.spec.model.revision
        history = history_writes(scene.known, scene.raw, scene.target, model_revision=commit, used=used)
    history += superseded(scene.observed, scene.known)
    return [*history, *pool_writes(scene), *worker_writes(scene), *_rules(scene)]


def _rules(scene: Scene) -> tuple[Write, ...]:
    """Let Prometheus watch the objectives, where the cluster can be told."""
    return rule_writes(scene.service, scene.raw, scene.settings.rules) if scene.observed.takes_rules else ()


def _told(scene: Scene, writes: tuple[Write, ...]) -> Outcome:
    pictures = [(pool, picture_of(scene, pool)) for pool in scene.pools]
    by_role = {role_of(pool): picture for pool, picture in pictures}
    found = ServicePicture(scene, by_role, progress_of(scene))
    status = service_status(found)
    waits = (
        found.progress.left_s,
        longest_wait_for_room_s(scene.workers, scene.observed.now),
        silent_in_s(scene),
    )
    return Outcome(
        writes=writes,
        status=(
            *(
                merge
                for pool, picture in pictures
                if not _goes(pool, writes)
                for merge in pool_status(scene, pool, picture)
            ),
            *status_patch(scene.raw, status, others=OBSERVED),
        ),
        events=transitions(scene.raw, status["conditions"]),
        again_in_s=min((wait for wait in waits if wait is not None), default=None),
    )


def _goes(pool: Manifest, writes: Iterable[Write]) -> bool:
    return Delete(reference_to(pool)) in writes


def _refused(observed: Observed, message: str) -> Outcome:
    status = invalid_status(observed.service, message, observed.now)
    return Outcome(
        status=status_patch(observed.service, status, others=OBSERVED),
        events=transitions(observed.service, status["conditions"]),
    )
