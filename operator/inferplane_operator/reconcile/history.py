"""What a service was before: a ControllerRevision per revision, with its spec and its rendered templates.

It is where `rollback` reads what to go back to, and where a revision that is used again finds the very template that it
had, whatever a newer operator would render.
Trade-off.  A revision that is used again gets a new entry, and the older one goes once that is there.  A new number for
the entry would be one write less, but a server refuses it unless it finds the same bytes of data as it would write
itself, and an operator of another version wrote them.
Invariant.  An entry never changes, and a revision always has one.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from inferplane_api.catalogue import WorkerRole
from inferplane_operator.reconcile.reading import labels, section, text
from inferplane_operator.reconcile.statuses import reference_to
from inferplane_operator.reconcile.values import Create, Delete, Manifest, Observed, Write
from inferplane_operator.render import names
from inferplane_operator.render.objects import APPS, common_labels, controller_reference

KEPT: Final = 5


class Hold(StrEnum):
    """Why the target is not what the spec asks for."""

    NONE = ""
    FROZEN = "frozen"
    FAILED = "failed"
    UNRESOLVED = "unresolved"


@dataclass(frozen=True, slots=True)
class Target:
    """What workers shall be; `revision` is "" while nothing can be started yet."""

    revision: str
    templates: Mapping[WorkerRole, Mapping[str, Any]]
    hold: Hold = Hold.NONE


@dataclass(frozen=True, slots=True)
class Entry:
    """One revision; `templates` by the role of their pool."""

    revision: str
    number: int
    spec: Mapping[str, Any]
    model_revision: str
    templates: Mapping[str, Mapping[str, Any]]
    found: Manifest


def entries(observed: Observed) -> dict[str, Entry]:
    """Return what is known of earlier revisions, oldest first."""
    read = sorted((_entry(found) for found in observed.histories), key=lambda entry: (entry.number, entry.revision))
    return {entry.revision: entry for entry in read}


def superseded(observed: Observed, known: Mapping[str, Entry]) -> list[Write]:
    """Forget entries of revisions that have a newer one."""
    newest = [entry.found for entry in known.values()]
    return [Delete(reference_to(found), bookkeeping=True) for found in observed.histories if found not in newest]


def history_writes(
    known: Mapping[str, Entry],
    service: Manifest,
    target: Target,
    *,
    model_revision: str,
    used: Collection[str],
) -> list[Write]:
    """Make the wanted revision the newest entry, and forget what is neither among the last five nor in use."""
    newest = max((entry.number for entry in known.values()), default=0)
    mine = known.get(target.revision)
    writes: list[Write] = []
    if mine is None or mine.number < newest:
        entry = controller_revision(
            service, target, model_revision=model_revision, number=newest + 1, again=mine is not None
        )
        writes.append(Create(entry, bookkeeping=True))
    others = [entry for entry in known.values() if entry.revision != target.revision]
    old = others[: max(0, len(others) - (KEPT - 1))]
    forgotten = [reference_to(entry.found) for entry in old if entry.revision not in used]
    return writes + [Delete(reference, bookkeeping=True) for reference in forgotten]


def controller_revision(
    service: Manifest, target: Target, *, model_revision: str, number: int, again: bool = False
) -> dict[str, Any]:
    """Return an entry; one of a revision that is used again has a name of its own, beside the older one's."""
    metadata = service["metadata"]
    name = f"{metadata['name']}-{target.revision}"
    return {
        "apiVersion": APPS,
        "kind": "ControllerRevision",
        "metadata": {
            "name": f"{name}-{number}" if again else name,
            "namespace": metadata.get("namespace", "default"),
            "labels": {**common_labels(str(metadata["name"])), names.LABEL_REVISION: target.revision},
            "ownerReferences": [controller_reference(service)],
        },
        "revision": number,
        "data": {
            "spec": service["spec"],
            "modelRevision": model_revision,
            "templates": {role.value: template for role, template in target.templates.items()},
        },
    }


def _entry(found: Manifest) -> Entry:
    data = section(found, "data")
    return Entry(
        revision=labels(found).get(names.LABEL_REVISION) or text(found, "metadata", "name").rpartition("-")[2],
        number=int(found.get("revision", 0)),
        spec=section(data, "spec"),
        model_revision=text(data, "modelRevision"),
        templates=section(data, "templates"),
        found=found,
    )
