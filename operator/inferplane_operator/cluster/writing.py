"""Carries out what reconciling decided: each write that is needed, in order, while this process leads.

What a write made of an object is taken in at once, as if a watch had told of it.  A step that comes before the watch
event therefore sees it, and creates nothing twice.
"""

from collections.abc import Callable, Mapping
from typing import Any

import structlog

from inferplane_operator.cluster.applied import (
    APPLY,
    Memory,
    Necessity,
    Need,
    apply_needed,
    digest,
    merge_needed,
    with_digest,
)
from inferplane_operator.cluster.errors import (
    AbsentError,
    ClusterError,
    ConflictError,
    ForeignError,
    RefusedError,
    TerminatingError,
)
from inferplane_operator.cluster.event_recording import EventRecorder
from inferplane_operator.cluster.field_owners import APPLIER, CREATOR
from inferplane_operator.cluster.metrics import OperatorMetrics, WriteOutcome
from inferplane_operator.cluster.objects import Objects, reference_to
from inferplane_operator.cluster.store import Store
from inferplane_operator.cluster.stored import ObjectId, Stored, controller_of
from inferplane_operator.reconcile.values import (
    Apply,
    Create,
    Delete,
    Event,
    EventType,
    Manifest,
    Merge,
    Outcome,
    Reference,
    Write,
    is_bookkeeping,
)

_log = structlog.get_logger("inferplane.operator")


class Writer:
    """`take_in` stores an object and queues whom it concerns; `allowed` raises NotLeadingError where we do not lead."""

    def __init__(
        self,
        objects: Objects,
        store: Store,
        *,
        recorder: EventRecorder,
        memory: Memory,
        take_in: Callable[[Manifest], Stored],
        allowed: Callable[[], None],
        metrics: OperatorMetrics,
    ) -> None:
        self._objects = objects
        self._store = store
        self._recorder = recorder
        self._memory = memory
        self._take_in = take_in
        self._allowed = allowed
        self._metrics = metrics

    async def carry_out(self, outcome: Outcome) -> str:
        """Make every write; return what was said against bookkeeping, "" where it was taken.

        Statuses and Events are told even where a write fails, whose error is raised at the end.
        """
        failure: ClusterError | None = None
        unrecorded = list[str]()
        try:
            for write in outcome.writes:
                unrecorded += await self._write_or_tell(write)
        except ClusterError as error:
            failure = error
        for status in outcome.status:
            await self._write(status)
        for event in outcome.events:
            await self._recorder.record(event)
        if failure is not None:
            raise failure
        return next(iter(unrecorded), "")

    async def _write_or_tell(self, write: Write) -> list[str]:
        """Return what was said against a write without which the others can be made."""
        try:
            await self._write(write)
        except TerminatingError:
            raise
        except RefusedError as error:
            if not is_bookkeeping(write):
                raise
            return [str(error)]
        return []

    async def _write(self, write: Write) -> None:
        verb, kind = type(write).__name__.lower(), _kind(write)
        outcome = WriteOutcome.FAILED
        try:
            written = await self._needed(write)
            outcome = WriteOutcome.WRITTEN if written else WriteOutcome.NEEDLESS
        finally:
            self._metrics.wrote(verb, kind, outcome)

    async def _needed(self, write: Write) -> bool:
        match write:
            case Apply():
                return await self._apply(write)
            case Create():
                return await self._create(write)
            case Delete():
                return await self._delete(write)
            case Merge():
                return await self._merge(write)

    async def _apply(self, write: Apply) -> bool:
        live = self._live(reference_to(write.manifest))
        necessity = apply_needed(write, live, self._memory)
        if necessity.need is Need.NONE:
            return False
        if live is not None and live.terminating:
            return False  # what is going away is made anew when it has gone
        self._allowed()
        wanted = digest(write.manifest)
        stored = self._keep(await self._applied(with_digest(write.manifest, wanted), live))
        self._memory.note(stored, APPLY, wanted)
        self._told("applied", write.manifest, because=necessity.need.name.lower(), field=necessity.field)
        if necessity.need is Need.EDITED and necessity.editor:
            await self._recorder.record(_edited(stored, necessity))
        return True

    async def _applied(self, manifest: Manifest, live: Stored | None) -> Manifest:
        """Take over what others own of our objects, but not an object of somebody else that has the name."""
        if live is not None:
            return await self._objects.apply(manifest, manager=APPLIER, force=True)
        try:
            return await self._objects.apply(manifest, manager=APPLIER, force=False)
        except ConflictError as conflict:
            if await self._objects.controller(manifest) != controller_of(manifest["metadata"]):
                raise ForeignError(conflict.status, _foreign(manifest)) from conflict
        return await self._objects.apply(manifest, manager=APPLIER, force=True)

    async def _create(self, write: Create) -> bool:
        """Make an object as a manager that never applies: what it sets, replicas say, is nobody's afterwards."""
        if self._live(reference_to(write.manifest)) is not None:
            return False
        self._allowed()
        try:
            answer = await self._objects.create(write.manifest, manager=CREATOR)
        except ConflictError:  # it is there; the watch has yet to tell
            return False
        if not write.secret:
            self._keep(answer)
        self._told("created", write.manifest)
        return True

    async def _delete(self, write: Delete) -> bool:
        live = self._live(write.reference)
        if live is None or live.terminating or (write.reference.uid and live.uid != write.reference.uid):
            return False
        self._allowed()
        try:
            await self._objects.delete(live.reference())
        except (AbsentError, ConflictError):  # gone, or another object has its name by now
            return False
        _log.info("deleted", kind=live.id.kind, namespace=live.id.namespace, name=live.id.name)
        return True

    async def _merge(self, write: Merge) -> bool:
        live = self._live(write.reference)
        if not merge_needed(write, live, self._memory):
            return False
        self._allowed()
        try:
            answer = await self._objects.merge(
                write.reference, write.patch, subresource=write.subresource, manager=APPLIER
            )
        except AbsentError:  # its deletion is an event that is on its way
            return False
        if write.subresource != "scale":  # whose answer is a Scale
            self._memory.note(self._keep(answer), write.subresource, digest(write.patch))
        return True

    def _live(self, reference: Reference) -> Stored | None:
        return self._store.get(ObjectId(reference.kind, reference.namespace, reference.name))

    def _keep(self, answer: Manifest) -> Stored:
        return self._take_in(answer)

    def _told(self, what: str, manifest: Manifest, **more: str) -> None:
        metadata: Mapping[str, Any] = manifest["metadata"]
        given = {key: value for key, value in more.items() if value}
        _log.info(what, kind=manifest["kind"], namespace=metadata.get("namespace"), name=metadata["name"], **given)


def _edited(stored: Stored, necessity: Necessity) -> Event:
    field = necessity.field or "a field"
    message = (
        f"{field} of {stored.id.kind} {stored.id.name} was changed by {necessity.editor} and is set back; "
        "change the InferenceService instead"
    )
    return Event(stored.reference(), EventType.WARNING, "EditedByHand", message)


def _foreign(manifest: Manifest) -> str:
    metadata, kind = manifest["metadata"], manifest["kind"]
    return (
        f"a {kind} {metadata['name']} is there that is not of this service; delete it, or give the service another name"
    )


def _kind(write: Write) -> str:
    match write:
        case Apply() | Create():
            return str(write.manifest["kind"])
        case Delete() | Merge():
            return write.reference.kind
