from inferplane_api.proto import worker_pb2 as _worker_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class PickOutcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PICK_OUTCOME_UNSPECIFIED: _ClassVar[PickOutcome]
    PICK_OUTCOME_ROUTED: _ClassVar[PickOutcome]
    PICK_OUTCOME_UNKNOWN_MODEL: _ClassVar[PickOutcome]
    PICK_OUTCOME_NO_WORKERS: _ClassVar[PickOutcome]
    PICK_OUTCOME_QUEUE_FULL: _ClassVar[PickOutcome]
    PICK_OUTCOME_DEADLINE: _ClassVar[PickOutcome]
    PICK_OUTCOME_BAD_REQUEST: _ClassVar[PickOutcome]
PICK_OUTCOME_UNSPECIFIED: PickOutcome
PICK_OUTCOME_ROUTED: PickOutcome
PICK_OUTCOME_UNKNOWN_MODEL: PickOutcome
PICK_OUTCOME_NO_WORKERS: PickOutcome
PICK_OUTCOME_QUEUE_FULL: PickOutcome
PICK_OUTCOME_DEADLINE: PickOutcome
PICK_OUTCOME_BAD_REQUEST: PickOutcome

class PickRequest(_message.Message):
    __slots__ = ("request_id", "model", "body", "token_ids", "path", "session", "tenant", "priority", "max_tokens", "cache_salt", "adapter", "ttft_limit_s", "tpot_limit_s", "deadline_s", "exclude_workers", "only_workers")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    MAX_TOKENS_FIELD_NUMBER: _ClassVar[int]
    CACHE_SALT_FIELD_NUMBER: _ClassVar[int]
    ADAPTER_FIELD_NUMBER: _ClassVar[int]
    TTFT_LIMIT_S_FIELD_NUMBER: _ClassVar[int]
    TPOT_LIMIT_S_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_S_FIELD_NUMBER: _ClassVar[int]
    EXCLUDE_WORKERS_FIELD_NUMBER: _ClassVar[int]
    ONLY_WORKERS_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    model: str
    body: bytes
    token_ids: bytes
    path: str
    session: str
    tenant: str
    priority: int
    max_tokens: int
    cache_salt: str
    adapter: str
    ttft_limit_s: float
    tpot_limit_s: float
    deadline_s: float
    exclude_workers: _containers.RepeatedScalarFieldContainer[str]
    only_workers: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, request_id: _Optional[str] = ..., model: _Optional[str] = ..., body: _Optional[bytes] = ..., token_ids: _Optional[bytes] = ..., path: _Optional[str] = ..., session: _Optional[str] = ..., tenant: _Optional[str] = ..., priority: _Optional[int] = ..., max_tokens: _Optional[int] = ..., cache_salt: _Optional[str] = ..., adapter: _Optional[str] = ..., ttft_limit_s: _Optional[float] = ..., tpot_limit_s: _Optional[float] = ..., deadline_s: _Optional[float] = ..., exclude_workers: _Optional[_Iterable[str]] = ..., only_workers: _Optional[_Iterable[str]] = ...) -> None: ...

class Target(_message.Message):
    __slots__ = ("worker_id", "address", "dp_rank")
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    DP_RANK_FIELD_NUMBER: _ClassVar[int]
    worker_id: str
    address: str
    dp_rank: int
    def __init__(self, worker_id: _Optional[str] = ..., address: _Optional[str] = ..., dp_rank: _Optional[int] = ...) -> None: ...

class PickReply(_message.Message):
    __slots__ = ("request_id", "outcome", "message", "decode", "prefill", "prompt_tokens", "predicted_prefill_cached_tokens", "predicted_decode_cached_tokens", "predicted_ttft_s", "predicted_tpot_s", "retry_after_s", "headers")
    class HeadersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    DECODE_FIELD_NUMBER: _ClassVar[int]
    PREFILL_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    PREDICTED_PREFILL_CACHED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    PREDICTED_DECODE_CACHED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    PREDICTED_TTFT_S_FIELD_NUMBER: _ClassVar[int]
    PREDICTED_TPOT_S_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_S_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    outcome: PickOutcome
    message: str
    decode: Target
    prefill: _containers.RepeatedCompositeFieldContainer[Target]
    prompt_tokens: int
    predicted_prefill_cached_tokens: int
    predicted_decode_cached_tokens: int
    predicted_ttft_s: float
    predicted_tpot_s: float
    retry_after_s: float
    headers: _containers.ScalarMap[str, str]
    def __init__(self, request_id: _Optional[str] = ..., outcome: _Optional[_Union[PickOutcome, str]] = ..., message: _Optional[str] = ..., decode: _Optional[_Union[Target, _Mapping]] = ..., prefill: _Optional[_Iterable[_Union[Target, _Mapping]]] = ..., prompt_tokens: _Optional[int] = ..., predicted_prefill_cached_tokens: _Optional[int] = ..., predicted_decode_cached_tokens: _Optional[int] = ..., predicted_ttft_s: _Optional[float] = ..., predicted_tpot_s: _Optional[float] = ..., retry_after_s: _Optional[float] = ..., headers: _Optional[_Mapping[str, str]] = ...) -> None: ...

class CompleteRequest(_message.Message):
    __slots__ = ("request_id", "outcome")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    outcome: _worker_pb2.Outcome
    def __init__(self, request_id: _Optional[str] = ..., outcome: _Optional[_Union[_worker_pb2.Outcome, str]] = ...) -> None: ...

class CompleteReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ExplainRequest(_message.Message):
    __slots__ = ("request_id",)
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    def __init__(self, request_id: _Optional[str] = ...) -> None: ...

class Candidate(_message.Message):
    __slots__ = ("decode_worker", "decode_rank", "prefill_worker", "prefill_rank", "chosen", "prefill_hit_tokens", "decode_hit_tokens", "terms_ms", "cost_ms", "excluded_because")
    class TermsMsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    DECODE_WORKER_FIELD_NUMBER: _ClassVar[int]
    DECODE_RANK_FIELD_NUMBER: _ClassVar[int]
    PREFILL_WORKER_FIELD_NUMBER: _ClassVar[int]
    PREFILL_RANK_FIELD_NUMBER: _ClassVar[int]
    CHOSEN_FIELD_NUMBER: _ClassVar[int]
    PREFILL_HIT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    DECODE_HIT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    TERMS_MS_FIELD_NUMBER: _ClassVar[int]
    COST_MS_FIELD_NUMBER: _ClassVar[int]
    EXCLUDED_BECAUSE_FIELD_NUMBER: _ClassVar[int]
    decode_worker: str
    decode_rank: int
    prefill_worker: str
    prefill_rank: int
    chosen: bool
    prefill_hit_tokens: int
    decode_hit_tokens: int
    terms_ms: _containers.ScalarMap[str, float]
    cost_ms: float
    excluded_because: str
    def __init__(self, decode_worker: _Optional[str] = ..., decode_rank: _Optional[int] = ..., prefill_worker: _Optional[str] = ..., prefill_rank: _Optional[int] = ..., chosen: _Optional[bool] = ..., prefill_hit_tokens: _Optional[int] = ..., decode_hit_tokens: _Optional[int] = ..., terms_ms: _Optional[_Mapping[str, float]] = ..., cost_ms: _Optional[float] = ..., excluded_because: _Optional[str] = ...) -> None: ...

class DecisionRecord(_message.Message):
    __slots__ = ("request_id", "decided_at", "service", "model", "policy", "outcome", "reason", "prompt_tokens", "block_size", "candidates", "predicted_ttft_s", "predicted_tpot_s", "predicted_prefill_cached_tokens", "predicted_decode_cached_tokens", "queued_s", "mode", "observed", "namespace", "mismatch")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    DECIDED_AT_FIELD_NUMBER: _ClassVar[int]
    SERVICE_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    BLOCK_SIZE_FIELD_NUMBER: _ClassVar[int]
    CANDIDATES_FIELD_NUMBER: _ClassVar[int]
    PREDICTED_TTFT_S_FIELD_NUMBER: _ClassVar[int]
    PREDICTED_TPOT_S_FIELD_NUMBER: _ClassVar[int]
    PREDICTED_PREFILL_CACHED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    PREDICTED_DECODE_CACHED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    QUEUED_S_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    OBSERVED_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    MISMATCH_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    decided_at: float
    service: str
    model: str
    policy: str
    outcome: PickOutcome
    reason: str
    prompt_tokens: int
    block_size: int
    candidates: _containers.RepeatedCompositeFieldContainer[Candidate]
    predicted_ttft_s: float
    predicted_tpot_s: float
    predicted_prefill_cached_tokens: int
    predicted_decode_cached_tokens: int
    queued_s: float
    mode: str
    observed: _containers.RepeatedCompositeFieldContainer[_worker_pb2.RequestReport]
    namespace: str
    mismatch: str
    def __init__(self, request_id: _Optional[str] = ..., decided_at: _Optional[float] = ..., service: _Optional[str] = ..., model: _Optional[str] = ..., policy: _Optional[str] = ..., outcome: _Optional[_Union[PickOutcome, str]] = ..., reason: _Optional[str] = ..., prompt_tokens: _Optional[int] = ..., block_size: _Optional[int] = ..., candidates: _Optional[_Iterable[_Union[Candidate, _Mapping]]] = ..., predicted_ttft_s: _Optional[float] = ..., predicted_tpot_s: _Optional[float] = ..., predicted_prefill_cached_tokens: _Optional[int] = ..., predicted_decode_cached_tokens: _Optional[int] = ..., queued_s: _Optional[float] = ..., mode: _Optional[str] = ..., observed: _Optional[_Iterable[_Union[_worker_pb2.RequestReport, _Mapping]]] = ..., namespace: _Optional[str] = ..., mismatch: _Optional[str] = ...) -> None: ...

class ExplainReply(_message.Message):
    __slots__ = ("found", "record")
    FOUND_FIELD_NUMBER: _ClassVar[int]
    RECORD_FIELD_NUMBER: _ClassVar[int]
    found: bool
    record: DecisionRecord
    def __init__(self, found: _Optional[bool] = ..., record: _Optional[_Union[DecisionRecord, _Mapping]] = ...) -> None: ...

class ObserveRequest(_message.Message):
    __slots__ = ("component", "services")
    COMPONENT_FIELD_NUMBER: _ClassVar[int]
    SERVICES_FIELD_NUMBER: _ClassVar[int]
    component: str
    services: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, component: _Optional[str] = ..., services: _Optional[_Iterable[str]] = ...) -> None: ...

class Observation(_message.Message):
    __slots__ = ("arrival", "finished")
    ARRIVAL_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    arrival: Arrival
    finished: DecisionRecord
    def __init__(self, arrival: _Optional[_Union[Arrival, _Mapping]] = ..., finished: _Optional[_Union[DecisionRecord, _Mapping]] = ...) -> None: ...

class Arrival(_message.Message):
    __slots__ = ("request_id", "arrived_at", "service", "tenant", "prompt_tokens", "max_tokens", "namespace")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ARRIVED_AT_FIELD_NUMBER: _ClassVar[int]
    SERVICE_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    MAX_TOKENS_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    arrived_at: float
    service: str
    tenant: str
    prompt_tokens: int
    max_tokens: int
    namespace: str
    def __init__(self, request_id: _Optional[str] = ..., arrived_at: _Optional[float] = ..., service: _Optional[str] = ..., tenant: _Optional[str] = ..., prompt_tokens: _Optional[int] = ..., max_tokens: _Optional[int] = ..., namespace: _Optional[str] = ...) -> None: ...

class PlanNotice(_message.Message):
    __slots__ = ("service", "namespace", "decided_at", "prefill", "decode", "lent", "acting", "verdict", "reason", "cost_per_hour")
    SERVICE_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    DECIDED_AT_FIELD_NUMBER: _ClassVar[int]
    PREFILL_FIELD_NUMBER: _ClassVar[int]
    DECODE_FIELD_NUMBER: _ClassVar[int]
    LENT_FIELD_NUMBER: _ClassVar[int]
    ACTING_FIELD_NUMBER: _ClassVar[int]
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    COST_PER_HOUR_FIELD_NUMBER: _ClassVar[int]
    service: str
    namespace: str
    decided_at: float
    prefill: int
    decode: int
    lent: int
    acting: bool
    verdict: str
    reason: str
    cost_per_hour: float
    def __init__(self, service: _Optional[str] = ..., namespace: _Optional[str] = ..., decided_at: _Optional[float] = ..., prefill: _Optional[int] = ..., decode: _Optional[int] = ..., lent: _Optional[int] = ..., acting: _Optional[bool] = ..., verdict: _Optional[str] = ..., reason: _Optional[str] = ..., cost_per_hour: _Optional[float] = ...) -> None: ...

class PlanNoticed(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
