from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Role(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ROLE_UNSPECIFIED: _ClassVar[Role]
    ROLE_PREFILL: _ClassVar[Role]
    ROLE_DECODE: _ClassVar[Role]

class Phase(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PHASE_UNSPECIFIED: _ClassVar[Phase]
    PHASE_STARTING: _ClassVar[Phase]
    PHASE_READY: _ClassVar[Phase]
    PHASE_DRAINING: _ClassVar[Phase]
    PHASE_FAILED: _ClassVar[Phase]

class KvEventsState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    KV_EVENTS_UNSPECIFIED: _ClassVar[KvEventsState]
    KV_EVENTS_OK: _ClassVar[KvEventsState]
    KV_EVENTS_OFF: _ClassVar[KvEventsState]
    KV_EVENTS_SUSPECT: _ClassVar[KvEventsState]

class CanaryState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CANARY_UNSPECIFIED: _ClassVar[CanaryState]
    CANARY_PASSED: _ClassVar[CanaryState]
    CANARY_FAILED: _ClassVar[CanaryState]

class Plane(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PLANE_UNSPECIFIED: _ClassVar[Plane]
    PLANE_DEVICE: _ClassVar[Plane]
    PLANE_HOST: _ClassVar[Plane]
    PLANE_DISK: _ClassVar[Plane]
    PLANE_REMOTE: _ClassVar[Plane]
    PLANE_RESUMABLE: _ClassVar[Plane]

class LoadPhase(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LOAD_PHASE_UNSPECIFIED: _ClassVar[LoadPhase]
    LOAD_PHASE_ACCEPTED: _ClassVar[LoadPhase]
    LOAD_PHASE_PREFILL_DONE: _ClassVar[LoadPhase]
    LOAD_PHASE_FINISHED: _ClassVar[LoadPhase]

class Outcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OUTCOME_UNSPECIFIED: _ClassVar[Outcome]
    OUTCOME_OK: _ClassVar[Outcome]
    OUTCOME_CLIENT_GONE: _ClassVar[Outcome]
    OUTCOME_ENGINE_ERROR: _ClassVar[Outcome]
    OUTCOME_ENGINE_LOST: _ClassVar[Outcome]
    OUTCOME_REFUSED: _ClassVar[Outcome]
    OUTCOME_BAD_REQUEST: _ClassVar[Outcome]
    OUTCOME_DEADLINE: _ClassVar[Outcome]
ROLE_UNSPECIFIED: Role
ROLE_PREFILL: Role
ROLE_DECODE: Role
PHASE_UNSPECIFIED: Phase
PHASE_STARTING: Phase
PHASE_READY: Phase
PHASE_DRAINING: Phase
PHASE_FAILED: Phase
KV_EVENTS_UNSPECIFIED: KvEventsState
KV_EVENTS_OK: KvEventsState
KV_EVENTS_OFF: KvEventsState
KV_EVENTS_SUSPECT: KvEventsState
CANARY_UNSPECIFIED: CanaryState
CANARY_PASSED: CanaryState
CANARY_FAILED: CanaryState
PLANE_UNSPECIFIED: Plane
PLANE_DEVICE: Plane
PLANE_HOST: Plane
PLANE_DISK: Plane
PLANE_REMOTE: Plane
PLANE_RESUMABLE: Plane
LOAD_PHASE_UNSPECIFIED: LoadPhase
LOAD_PHASE_ACCEPTED: LoadPhase
LOAD_PHASE_PREFILL_DONE: LoadPhase
LOAD_PHASE_FINISHED: LoadPhase
OUTCOME_UNSPECIFIED: Outcome
OUTCOME_OK: Outcome
OUTCOME_CLIENT_GONE: Outcome
OUTCOME_ENGINE_ERROR: Outcome
OUTCOME_ENGINE_LOST: Outcome
OUTCOME_REFUSED: Outcome
OUTCOME_BAD_REQUEST: Outcome
OUTCOME_DEADLINE: Outcome

class SubscriberMessage(_message.Message):
    __slots__ = ("hello", "resync", "expects")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    RESYNC_FIELD_NUMBER: _ClassVar[int]
    EXPECTS_FIELD_NUMBER: _ClassVar[int]
    hello: Hello
    resync: Resync
    expects: Expects
    def __init__(self, hello: _Optional[_Union[Hello, _Mapping]] = ..., resync: _Optional[_Union[Resync, _Mapping]] = ..., expects: _Optional[_Union[Expects, _Mapping]] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("protocol_version", "subscriber_epoch", "component", "want_blocks")
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIBER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    COMPONENT_FIELD_NUMBER: _ClassVar[int]
    WANT_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    protocol_version: int
    subscriber_epoch: int
    component: str
    want_blocks: bool
    def __init__(self, protocol_version: _Optional[int] = ..., subscriber_epoch: _Optional[int] = ..., component: _Optional[str] = ..., want_blocks: _Optional[bool] = ...) -> None: ...

class Resync(_message.Message):
    __slots__ = ("dp_rank", "reason")
    DP_RANK_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    dp_rank: int
    reason: str
    def __init__(self, dp_rank: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...

class Expect(_message.Message):
    __slots__ = ("request_id", "dp_rank", "hashes")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    DP_RANK_FIELD_NUMBER: _ClassVar[int]
    HASHES_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    dp_rank: int
    hashes: bytes
    def __init__(self, request_id: _Optional[str] = ..., dp_rank: _Optional[int] = ..., hashes: _Optional[bytes] = ...) -> None: ...

class Expects(_message.Message):
    __slots__ = ("expects",)
    EXPECTS_FIELD_NUMBER: _ClassVar[int]
    expects: _containers.RepeatedCompositeFieldContainer[Expect]
    def __init__(self, expects: _Optional[_Iterable[_Union[Expect, _Mapping]]] = ...) -> None: ...

class WorkerMessage(_message.Message):
    __slots__ = ("epoch", "sequence", "sent_at", "identity", "status", "block_snapshot", "block_delta", "load_snapshot", "load_delta", "report", "heartbeat")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    SENT_AT_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    BLOCK_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    BLOCK_DELTA_FIELD_NUMBER: _ClassVar[int]
    LOAD_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    LOAD_DELTA_FIELD_NUMBER: _ClassVar[int]
    REPORT_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    sequence: int
    sent_at: float
    identity: Identity
    status: WorkerStatus
    block_snapshot: BlockSnapshot
    block_delta: BlockDelta
    load_snapshot: LoadSnapshot
    load_delta: LoadDelta
    report: RequestReport
    heartbeat: Heartbeat
    def __init__(self, epoch: _Optional[int] = ..., sequence: _Optional[int] = ..., sent_at: _Optional[float] = ..., identity: _Optional[_Union[Identity, _Mapping]] = ..., status: _Optional[_Union[WorkerStatus, _Mapping]] = ..., block_snapshot: _Optional[_Union[BlockSnapshot, _Mapping]] = ..., block_delta: _Optional[_Union[BlockDelta, _Mapping]] = ..., load_snapshot: _Optional[_Union[LoadSnapshot, _Mapping]] = ..., load_delta: _Optional[_Union[LoadDelta, _Mapping]] = ..., report: _Optional[_Union[RequestReport, _Mapping]] = ..., heartbeat: _Optional[_Union[Heartbeat, _Mapping]] = ...) -> None: ...

class Heartbeat(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Adapter(_message.Message):
    __slots__ = ("name", "revision")
    NAME_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    name: str
    revision: str
    def __init__(self, name: _Optional[str] = ..., revision: _Optional[str] = ...) -> None: ...

class Identity(_message.Message):
    __slots__ = ("protocol_version", "worker_id", "namespace", "service", "pool", "role", "revision", "engine_start", "model", "model_revision", "served_names", "adapters", "max_model_len", "block_size", "dp_size", "hybrid", "speculative_drop_blocks", "engine", "engine_version", "capabilities", "agent_version", "http_address", "zone", "accelerator", "kv_blocks_per_rank", "max_num_seqs", "max_num_batched_tokens", "tokenizer_digest")
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    SERVICE_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    ENGINE_START_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    MODEL_REVISION_FIELD_NUMBER: _ClassVar[int]
    SERVED_NAMES_FIELD_NUMBER: _ClassVar[int]
    ADAPTERS_FIELD_NUMBER: _ClassVar[int]
    MAX_MODEL_LEN_FIELD_NUMBER: _ClassVar[int]
    BLOCK_SIZE_FIELD_NUMBER: _ClassVar[int]
    DP_SIZE_FIELD_NUMBER: _ClassVar[int]
    HYBRID_FIELD_NUMBER: _ClassVar[int]
    SPECULATIVE_DROP_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    ENGINE_FIELD_NUMBER: _ClassVar[int]
    ENGINE_VERSION_FIELD_NUMBER: _ClassVar[int]
    CAPABILITIES_FIELD_NUMBER: _ClassVar[int]
    AGENT_VERSION_FIELD_NUMBER: _ClassVar[int]
    HTTP_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    ZONE_FIELD_NUMBER: _ClassVar[int]
    ACCELERATOR_FIELD_NUMBER: _ClassVar[int]
    KV_BLOCKS_PER_RANK_FIELD_NUMBER: _ClassVar[int]
    MAX_NUM_SEQS_FIELD_NUMBER: _ClassVar[int]
    MAX_NUM_BATCHED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    TOKENIZER_DIGEST_FIELD_NUMBER: _ClassVar[int]
    protocol_version: int
    worker_id: str
    namespace: str
    service: str
    pool: str
    role: Role
    revision: str
    engine_start: str
    model: str
    model_revision: str
    served_names: _containers.RepeatedScalarFieldContainer[str]
    adapters: _containers.RepeatedCompositeFieldContainer[Adapter]
    max_model_len: int
    block_size: int
    dp_size: int
    hybrid: bool
    speculative_drop_blocks: int
    engine: str
    engine_version: str
    capabilities: _containers.RepeatedScalarFieldContainer[str]
    agent_version: str
    http_address: str
    zone: str
    accelerator: str
    kv_blocks_per_rank: int
    max_num_seqs: int
    max_num_batched_tokens: int
    tokenizer_digest: str
    def __init__(self, protocol_version: _Optional[int] = ..., worker_id: _Optional[str] = ..., namespace: _Optional[str] = ..., service: _Optional[str] = ..., pool: _Optional[str] = ..., role: _Optional[_Union[Role, str]] = ..., revision: _Optional[str] = ..., engine_start: _Optional[str] = ..., model: _Optional[str] = ..., model_revision: _Optional[str] = ..., served_names: _Optional[_Iterable[str]] = ..., adapters: _Optional[_Iterable[_Union[Adapter, _Mapping]]] = ..., max_model_len: _Optional[int] = ..., block_size: _Optional[int] = ..., dp_size: _Optional[int] = ..., hybrid: _Optional[bool] = ..., speculative_drop_blocks: _Optional[int] = ..., engine: _Optional[str] = ..., engine_version: _Optional[str] = ..., capabilities: _Optional[_Iterable[str]] = ..., agent_version: _Optional[str] = ..., http_address: _Optional[str] = ..., zone: _Optional[str] = ..., accelerator: _Optional[str] = ..., kv_blocks_per_rank: _Optional[int] = ..., max_num_seqs: _Optional[int] = ..., max_num_batched_tokens: _Optional[int] = ..., tokenizer_digest: _Optional[str] = ...) -> None: ...

class WorkerStatus(_message.Message):
    __slots__ = ("phase", "detail", "kv_events", "canary", "transport", "transport_degraded", "tier_prices")
    PHASE_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    KV_EVENTS_FIELD_NUMBER: _ClassVar[int]
    CANARY_FIELD_NUMBER: _ClassVar[int]
    TRANSPORT_FIELD_NUMBER: _ClassVar[int]
    TRANSPORT_DEGRADED_FIELD_NUMBER: _ClassVar[int]
    TIER_PRICES_FIELD_NUMBER: _ClassVar[int]
    phase: Phase
    detail: str
    kv_events: KvEventsState
    canary: CanaryState
    transport: str
    transport_degraded: bool
    tier_prices: _containers.RepeatedCompositeFieldContainer[TierPrice]
    def __init__(self, phase: _Optional[_Union[Phase, str]] = ..., detail: _Optional[str] = ..., kv_events: _Optional[_Union[KvEventsState, str]] = ..., canary: _Optional[_Union[CanaryState, str]] = ..., transport: _Optional[str] = ..., transport_degraded: _Optional[bool] = ..., tier_prices: _Optional[_Iterable[_Union[TierPrice, _Mapping]]] = ...) -> None: ...

class TierPrice(_message.Message):
    __slots__ = ("plane", "token_s")
    PLANE_FIELD_NUMBER: _ClassVar[int]
    TOKEN_S_FIELD_NUMBER: _ClassVar[int]
    plane: Plane
    token_s: float
    def __init__(self, plane: _Optional[_Union[Plane, str]] = ..., token_s: _Optional[float] = ...) -> None: ...

class BlockSnapshot(_message.Message):
    __slots__ = ("dp_rank", "plane", "store_id", "hashes", "first", "last")
    DP_RANK_FIELD_NUMBER: _ClassVar[int]
    PLANE_FIELD_NUMBER: _ClassVar[int]
    STORE_ID_FIELD_NUMBER: _ClassVar[int]
    HASHES_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    dp_rank: int
    plane: Plane
    store_id: str
    hashes: bytes
    first: bool
    last: bool
    def __init__(self, dp_rank: _Optional[int] = ..., plane: _Optional[_Union[Plane, str]] = ..., store_id: _Optional[str] = ..., hashes: _Optional[bytes] = ..., first: _Optional[bool] = ..., last: _Optional[bool] = ...) -> None: ...

class BlockDelta(_message.Message):
    __slots__ = ("dp_rank", "plane", "store_id", "cleared", "removed", "stored", "expected", "expected_by")
    DP_RANK_FIELD_NUMBER: _ClassVar[int]
    PLANE_FIELD_NUMBER: _ClassVar[int]
    STORE_ID_FIELD_NUMBER: _ClassVar[int]
    CLEARED_FIELD_NUMBER: _ClassVar[int]
    REMOVED_FIELD_NUMBER: _ClassVar[int]
    STORED_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_BY_FIELD_NUMBER: _ClassVar[int]
    dp_rank: int
    plane: Plane
    store_id: str
    cleared: bool
    removed: bytes
    stored: bytes
    expected: bytes
    expected_by: str
    def __init__(self, dp_rank: _Optional[int] = ..., plane: _Optional[_Union[Plane, str]] = ..., store_id: _Optional[str] = ..., cleared: _Optional[bool] = ..., removed: _Optional[bytes] = ..., stored: _Optional[bytes] = ..., expected: _Optional[bytes] = ..., expected_by: _Optional[str] = ...) -> None: ...

class LoadEntry(_message.Message):
    __slots__ = ("request_id", "router_epoch", "dp_rank", "phase", "prompt_tokens", "uncached_tokens", "output_tokens", "tenant", "adapter", "adapter_revision", "priority", "nonce")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ROUTER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    DP_RANK_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    UNCACHED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    ADAPTER_FIELD_NUMBER: _ClassVar[int]
    ADAPTER_REVISION_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    router_epoch: int
    dp_rank: int
    phase: LoadPhase
    prompt_tokens: int
    uncached_tokens: int
    output_tokens: int
    tenant: str
    adapter: str
    adapter_revision: str
    priority: int
    nonce: int
    def __init__(self, request_id: _Optional[str] = ..., router_epoch: _Optional[int] = ..., dp_rank: _Optional[int] = ..., phase: _Optional[_Union[LoadPhase, str]] = ..., prompt_tokens: _Optional[int] = ..., uncached_tokens: _Optional[int] = ..., output_tokens: _Optional[int] = ..., tenant: _Optional[str] = ..., adapter: _Optional[str] = ..., adapter_revision: _Optional[str] = ..., priority: _Optional[int] = ..., nonce: _Optional[int] = ...) -> None: ...

class LoadSnapshot(_message.Message):
    __slots__ = ("entries", "gauges")
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    GAUGES_FIELD_NUMBER: _ClassVar[int]
    entries: _containers.RepeatedCompositeFieldContainer[LoadEntry]
    gauges: _containers.RepeatedCompositeFieldContainer[EngineGauges]
    def __init__(self, entries: _Optional[_Iterable[_Union[LoadEntry, _Mapping]]] = ..., gauges: _Optional[_Iterable[_Union[EngineGauges, _Mapping]]] = ...) -> None: ...

class LoadDelta(_message.Message):
    __slots__ = ("entries", "gauges")
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    GAUGES_FIELD_NUMBER: _ClassVar[int]
    entries: _containers.RepeatedCompositeFieldContainer[LoadEntry]
    gauges: _containers.RepeatedCompositeFieldContainer[EngineGauges]
    def __init__(self, entries: _Optional[_Iterable[_Union[LoadEntry, _Mapping]]] = ..., gauges: _Optional[_Iterable[_Union[EngineGauges, _Mapping]]] = ...) -> None: ...

class EngineGauges(_message.Message):
    __slots__ = ("dp_rank", "running", "waiting", "kv_usage")
    DP_RANK_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    KV_USAGE_FIELD_NUMBER: _ClassVar[int]
    dp_rank: int
    running: int
    waiting: int
    kv_usage: float
    def __init__(self, dp_rank: _Optional[int] = ..., running: _Optional[int] = ..., waiting: _Optional[int] = ..., kv_usage: _Optional[float] = ...) -> None: ...

class RequestReport(_message.Message):
    __slots__ = ("request_id", "router_epoch", "dp_rank", "outcome", "status", "model", "tenant", "adapter", "adapter_revision", "prompt_tokens", "output_tokens", "cached_tokens", "decode_cached_tokens", "transferred_tokens", "cached_tokens_known", "decode_cached_tokens_known", "queue_s", "prefill_s", "transfer_s", "decode_s", "ttft_s", "tpot_s", "prefill_worker", "failed_prefill_workers", "side", "streamed", "nonce", "damaged_prefill_workers")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ROUTER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    DP_RANK_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    ADAPTER_FIELD_NUMBER: _ClassVar[int]
    ADAPTER_REVISION_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    CACHED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    DECODE_CACHED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    TRANSFERRED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    CACHED_TOKENS_KNOWN_FIELD_NUMBER: _ClassVar[int]
    DECODE_CACHED_TOKENS_KNOWN_FIELD_NUMBER: _ClassVar[int]
    QUEUE_S_FIELD_NUMBER: _ClassVar[int]
    PREFILL_S_FIELD_NUMBER: _ClassVar[int]
    TRANSFER_S_FIELD_NUMBER: _ClassVar[int]
    DECODE_S_FIELD_NUMBER: _ClassVar[int]
    TTFT_S_FIELD_NUMBER: _ClassVar[int]
    TPOT_S_FIELD_NUMBER: _ClassVar[int]
    PREFILL_WORKER_FIELD_NUMBER: _ClassVar[int]
    FAILED_PREFILL_WORKERS_FIELD_NUMBER: _ClassVar[int]
    SIDE_FIELD_NUMBER: _ClassVar[int]
    STREAMED_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    DAMAGED_PREFILL_WORKERS_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    router_epoch: int
    dp_rank: int
    outcome: Outcome
    status: int
    model: str
    tenant: str
    adapter: str
    adapter_revision: str
    prompt_tokens: int
    output_tokens: int
    cached_tokens: int
    decode_cached_tokens: int
    transferred_tokens: int
    cached_tokens_known: bool
    decode_cached_tokens_known: bool
    queue_s: float
    prefill_s: float
    transfer_s: float
    decode_s: float
    ttft_s: float
    tpot_s: float
    prefill_worker: str
    failed_prefill_workers: _containers.RepeatedScalarFieldContainer[str]
    side: Role
    streamed: bool
    nonce: int
    damaged_prefill_workers: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, request_id: _Optional[str] = ..., router_epoch: _Optional[int] = ..., dp_rank: _Optional[int] = ..., outcome: _Optional[_Union[Outcome, str]] = ..., status: _Optional[int] = ..., model: _Optional[str] = ..., tenant: _Optional[str] = ..., adapter: _Optional[str] = ..., adapter_revision: _Optional[str] = ..., prompt_tokens: _Optional[int] = ..., output_tokens: _Optional[int] = ..., cached_tokens: _Optional[int] = ..., decode_cached_tokens: _Optional[int] = ..., transferred_tokens: _Optional[int] = ..., cached_tokens_known: _Optional[bool] = ..., decode_cached_tokens_known: _Optional[bool] = ..., queue_s: _Optional[float] = ..., prefill_s: _Optional[float] = ..., transfer_s: _Optional[float] = ..., decode_s: _Optional[float] = ..., ttft_s: _Optional[float] = ..., tpot_s: _Optional[float] = ..., prefill_worker: _Optional[str] = ..., failed_prefill_workers: _Optional[_Iterable[str]] = ..., side: _Optional[_Union[Role, str]] = ..., streamed: _Optional[bool] = ..., nonce: _Optional[int] = ..., damaged_prefill_workers: _Optional[_Iterable[str]] = ...) -> None: ...
