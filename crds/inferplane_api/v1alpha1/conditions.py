"""Conditions: what a status says, in constants that alerts and scripts may rely on."""

from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field, WithJsonSchema

from inferplane_api.v1alpha1.wire import WireModel, keyed_by


class ConditionType(StrEnum):
    READY = "Ready"
    """Serves with the current spec: true only when no pod of an older revision serves any more."""
    SLO_MET = "SLOMet"
    """The objectives held over the window."""
    PROGRESSING = "Progressing"
    """A change is being rolled out."""
    DEGRADED = "Degraded"
    """Serves, but with less than asked for."""
    KV_ROUTING_HEALTHY = "KVRoutingHealthy"
    """Predicted prefix hits agree with what engines report."""
    UNVERIFIED = "Unverified"
    """Uses something that nobody has run end to end, only against its contract."""


class ConditionStatus(StrEnum):
    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Reason(StrEnum):
    """Why a condition has its status; a low-cardinality word for machines, the message is for people."""

    # Ready
    ALL_WORKERS_READY = "AllWorkersReady"
    SERVING = "Serving"
    """Serves, though not all workers are ready."""
    WORKERS_STARTING = "WorkersStarting"
    NO_READY_WORKERS = "NoReadyWorkers"
    OLD_REVISION_SERVES = "OldRevisionServes"
    SERVED_NAME_CONFLICT = "ServedNameConflict"
    INVALID_SPEC = "InvalidSpec"
    MODEL_NOT_FOUND = "ModelNotFound"
    # Ready, of an adapter
    ADAPTER_LOADED = "AdapterLoaded"
    ADAPTER_LOADING = "AdapterLoading"
    ADAPTER_FAILED = "AdapterFailed"
    ADAPTERS_FULL = "AdaptersFull"
    SERVICE_NOT_FOUND = "ServiceNotFound"
    # SLOMet
    WITHIN_OBJECTIVE = "WithinObjective"
    TTFT_EXCEEDED = "TTFTExceeded"
    TPOT_EXCEEDED = "TPOTExceeded"
    NO_TRAFFIC = "NoTraffic"
    INFEASIBLE = "Infeasible"
    # Progressing
    ROLLING_OUT = "RollingOut"
    SCALING = "Scaling"
    ROLLED_OUT = "RolledOut"
    PAUSED = "Paused"
    ROLLED_BACK = "RolledBack"
    FROZEN = "Frozen"
    """A change is there and waits for the freeze to end."""
    DEADLINE_EXCEEDED = "DeadlineExceeded"
    # Degraded
    AS_SPECIFIED = "AsSpecified"
    WORKERS_FAILED = "WorkersFailed"
    WORKERS_PENDING = "WorkersPending"
    CANARY_WRONG = "CanaryWrong"
    SLOW_TRANSPORT = "SlowTransport"
    BUDGET_EXHAUSTED = "BudgetExhausted"
    KV_STORE_UNAVAILABLE = "KVStoreUnavailable"
    NODES_FAILING = "NodesFailing"
    NOT_RECORDED = "NotRecorded"
    """Workers are as they should be; what is noted of them is not: a revision to go back to, say."""
    # Ready or Degraded: why a worker is not there
    NO_ROOM = "NoRoom"
    """No node has what the worker asks for."""
    UNSCHEDULABLE = "Unschedulable"
    QUOTA_EXCEEDED = "QuotaExceeded"
    WORKER_REFUSED = "WorkerRefused"
    """The API server takes no Pod of this kind, for another reason than a quota."""
    VOLUME_UNBOUND = "VolumeUnbound"
    IMAGE_UNAVAILABLE = "ImageUnavailable"
    CONFIGURATION_MISSING = "ConfigurationMissing"
    """A Secret or ConfigMap that the worker needs is not there."""
    CRASH_LOOP = "CrashLoop"
    WORKER_EVICTED = "WorkerEvicted"
    ENGINE_LOADING = "EngineLoading"
    # KVRoutingHealthy
    PREDICTIONS_MATCH = "PredictionsMatch"
    EVENTS_OFF = "EventsOff"
    EVENTS_LOST = "EventsLost"
    BLOCK_SIZE_MISMATCH = "BlockSizeMismatch"
    HASH_SEED_MISMATCH = "HashSeedMismatch"
    TOKENIZER_MISMATCH = "TokenizerMismatch"
    TEMPLATE_MISMATCH = "TemplateMismatch"
    SALT_MISMATCH = "SaltMismatch"
    ADAPTER_MISMATCH = "AdapterMismatch"
    UNKNOWN_MISMATCH = "UnknownMismatch"
    # Unverified
    VERIFIED = "Verified"
    CONTRACT_ONLY = "ContractOnly"
    NEVER_RUN = "NeverRun"
    # Ready, of a route
    ACCEPTED = "Accepted"
    UNKNOWN_TARGET = "UnknownTarget"
    ALIAS_TAKEN = "AliasTaken"
    # any
    PENDING = "Pending"


_WORD: Final = {"type": "string", "maxLength": 128, "pattern": "^[A-Za-z]+$"}
"""An API server takes words that it does not know yet: an operator may be newer than the resource definitions."""


class Condition(WireModel):
    type: Annotated[ConditionType, WithJsonSchema(_WORD)] = Field(description="What is said.")
    status: ConditionStatus = Field(description="True, False or Unknown.")
    reason: Annotated[Reason, WithJsonSchema(_WORD)] = Field(description="Why, as one word.")
    message: str = Field(default="", max_length=32768, description="Why, for people, with the next step.")
    last_transition_time: str | None = Field(default=None, description="When the status last changed; RFC 3339.")
    observed_generation: int = Field(default=0, ge=0, description="Generation of the spec that this speaks of.")


Conditions = Annotated[tuple[Condition, ...], Field(max_length=32, json_schema_extra=keyed_by("type"))]
