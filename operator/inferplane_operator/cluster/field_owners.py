"""What `metadata.managedFields` tells, read before it is thrown away: it is half of every object.

Two questions are asked of it: who set `spec.replicas` last, and who else changed the object (an edit by hand names its
author).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from inferplane_operator.cluster.raw import part

APPLIER: Final = "inferplane-operator"
CREATOR: Final = "inferplane-operator-create"
"""Sets what belongs to nobody afterwards: the first `spec.replicas` of a pool."""
_OURS: Final = frozenset({APPLIER, CREATOR})
_CONTROLLERS: Final = frozenset({"kube-controller-manager", "kubelet", "kube-scheduler"})


@dataclass(frozen=True, slots=True)
class FieldOwners:
    scaled_by: str = ""
    """Manager that set `spec.replicas` last."""
    editor: str = ""
    """Manager other than us that wrote labels or the spec last."""


NOBODY: Final = FieldOwners()


def read_owners(entries: Iterable[Mapping[str, Any]]) -> FieldOwners:
    scalers: list[tuple[str, str]] = []
    editors: list[tuple[str, str]] = []
    for entry in entries:
        fields = part(entry, "fieldsV1")
        manager, time = str(entry.get("manager", "")), str(entry.get("time", ""))
        if "f:replicas" in part(fields, "f:spec"):
            scalers.append((time, manager))
        if _is_edit(entry, fields) and manager not in _OURS and manager not in _CONTROLLERS:
            editors.append((time, manager))
    return FieldOwners(
        scaled_by=max(scalers)[1] if scalers else "",
        editor=max(editors)[1] if editors else "",
    )


def _is_edit(entry: Mapping[str, Any], fields: Mapping[str, Any]) -> bool:
    if entry.get("subresource"):
        return bool(entry["subresource"] == "scale")
    metadata = part(fields, "f:metadata")
    return "f:spec" in fields or "f:labels" in metadata or "f:ownerReferences" in metadata
