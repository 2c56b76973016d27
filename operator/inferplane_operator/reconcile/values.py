"""What reconciling takes and gives: raw Kubernetes objects in, writes out.

Objects are mappings as the API server serves them (camelCase, JSON values), without `metadata.managedFields`, whose
part that matters (`Observed.scaled_by`) is read when an object is stored.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from inferplane_api.claims import Key
from inferplane_engine.memory import ModelFacts

__all__ = [
    "Apply",
    "CanaryVerdict",
    "Create",
    "Delete",
    "Event",
    "EventType",
    "Judgement",
    "Key",
    "Manifest",
    "Merge",
    "Observed",
    "ObservedKVStore",
    "ObservedRoute",
    "Outcome",
    "Reference",
    "ServedNameClaim",
    "Write",
    "is_bookkeeping",
]

Manifest = Mapping[str, Any]


@dataclass(frozen=True, slots=True, order=True)
class Reference:
    """An object anywhere."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str = ""
    """If given, only this very object is meant."""


@dataclass(frozen=True, slots=True)
class ServedNameClaim:
    """A served name that another service claims as well, and that was claimed earlier."""

    name: str
    holder: Key


class Judgement(StrEnum):
    WAIT = "wait"
    PASS = "pass"  # noqa: S105 - not a password
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class CanaryVerdict:
    """What the first workers of a revision are found to be, compared with those before (`reconcile.canary`)."""

    revision: str
    judgement: Judgement
    message: str = ""


@dataclass(frozen=True, slots=True)
class Observed:
    """Everything known about one InferenceService at one moment."""

    service: Manifest
    pools: Sequence[Manifest] = ()
    """PrefillPool and DecodePool objects whose `spec.service` is this one."""
    deployments: Sequence[Manifest] = ()
    """Deployments (or LeaderWorkerSets) whose controller is one of the pools."""
    pods: Sequence[Manifest] = ()
    """Pods whose owner chain leads to one of the deployments; labels alone do not make a Pod ours."""
    others: Sequence[Manifest] = ()
    """Services and PodDisruptionBudgets whose controller is one of the pools."""
    adapters: Sequence[Manifest] = ()
    kv_store: Manifest | None = None
    lost_names: Sequence[ServedNameClaim] = ()
    scaled_by: Mapping[str, str] = field(default_factory=dict[str, str])
    """Pool name -> field manager that set `spec.replicas` last."""
    model_revision: str = ""
    """Commit that the model's revision resolved to; "" while unknown or where there is none."""
    model_problem: str = ""
    """Why the model's revision cannot be resolved, in words."""
    model_facts: ModelFacts | None = None
    """What the model weighs, where its hub says so."""
    now: str = ""
    """Wall clock, RFC 3339: for transition times, and for deadlines that are counted from times in objects."""
    histories: Sequence[Manifest] = ()
    """ControllerRevisions whose controller is the service."""
    canary: CanaryVerdict | None = None
    """The judge's word on the newest revision; None: nobody judges, so that readiness alone decides.

    A shell that judges says WAIT from the first moment on."""
    readiness: Mapping[str, str] = field(default_factory=dict[str, str])
    """Pod name -> why its agent says that it is not ready, where somebody asked."""
    refused: str = ""
    """What the API server said against a write of the last round, which so ended early; "" where it took them all."""
    unrecorded: str = ""
    """What it said against bookkeeping of the last round, which went on."""
    takes_rules: bool = False
    """The cluster has PrometheusRules, and the release asks for those of services."""


@dataclass(frozen=True, slots=True)
class TierReading:
    """One tier, over the stores that were read."""

    used_bytes: int = 0
    blocks: int = 0
    hits: int = 0
    corrupt: int = 0
    down: int = 0
    """Stores whose tier does not answer."""


@dataclass(frozen=True, slots=True)
class StoreReading:
    """What the stores of a KVStore said of themselves; sums since their starts."""

    asked: int = 0
    """Workers that were asked."""
    answering: int = 0
    """Stores that their agents know."""
    lookups: int = 0
    misses: int = 0
    fetched: int = 0
    declined: int = 0
    """Blocks that were there and were faster computed."""
    tiers: Mapping[str, TierReading] = field(default_factory=dict[str, TierReading])
    """By medium."""


@dataclass(frozen=True, slots=True)
class ObservedKVStore:
    """A KVStore and the services of its namespace."""

    store: Manifest
    services: Sequence[Manifest] = ()
    now: str = ""
    reading: StoreReading = StoreReading()


@dataclass(frozen=True, slots=True)
class ObservedRoute:
    """A ModelRoute, who holds which served name in the whole cluster, and all other routes."""

    route: Manifest
    holders: Mapping[str, Key] = field(default_factory=dict[str, Key])
    others: Sequence[Manifest] = ()
    now: str = ""


@dataclass(frozen=True, slots=True)
class Apply:
    """Server-side apply of exactly these fields, as field manager `inferplane-operator`, forced."""

    manifest: Manifest
    bookkeeping: bool = False
    """Workers run without it: a refusal is told and ends no round.  So of everything else that is written."""


@dataclass(frozen=True, slots=True)
class Create:
    """Create if absent, as a field manager of its own: what is set here belongs to nobody afterwards.

    So pools get their first `spec.replicas`, which `Apply` never mentions and so never resets.
    """

    manifest: Manifest
    bookkeeping: bool = False
    """As in `Apply`."""
    secret: bool = False
    """What is in it is for others alone: the operator keeps neither it nor the server's answer."""


@dataclass(frozen=True, slots=True)
class Delete:
    reference: Reference
    bookkeeping: bool = False


@dataclass(frozen=True, slots=True)
class Merge:
    """A JSON merge patch of an object or of one of its subresources (`scale`, `status`)."""

    reference: Reference
    patch: Manifest
    subresource: str = ""
    bookkeeping: bool = False


class EventType(StrEnum):
    NORMAL = "Normal"
    WARNING = "Warning"


@dataclass(frozen=True, slots=True)
class Event:
    """Said once per occurrence: the shell drops what it said about the same object in the same words before."""

    about: Reference
    type: EventType
    reason: str
    message: str


Write = Apply | Create | Delete | Merge


def is_bookkeeping(write: Write) -> bool:
    return write.bookkeeping


@dataclass(frozen=True, slots=True)
class Outcome:
    """What to do, in this order; a write that fails ends the round, and the object is looked at again later.

    Where bookkeeping is refused the round goes on.
    """

    writes: Sequence[Write] = ()
    status: Sequence[Merge] = ()
    """Status patches, whole statuses; dropped when they equal what is there.  Null stands for a field that is gone."""
    events: Sequence[Event] = ()
    again_in_s: float | None = None
    """Look again after this time even if nothing changes; None: only when something does."""
