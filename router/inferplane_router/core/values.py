"""What goes into the router core and what comes out: questions, answers and what `diagnose` shows.

Every value is frozen.  Times are seconds of one monotonic clock that the caller chooses and passes as `now`; only
decision records carry wall-clock time.  Token and hash arrays are shared, not copied: whoever passes one on does not
write to it any more.
"""

from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from inferplane_api.catalogue import CatalogueService
from inferplane_engine.identity import Adapter, KeySpace
from inferplane_runtime.values import value

Tokens = NDArray[np.int32]
Hashes = NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What the workers of a model have said about it."""

    key_space: KeySpace
    seed: int
    """Where block hashes of this key space and adapter begin."""
    max_model_len: int
    tokenizer_digest: str
    file_sources: tuple[str, ...]
    """host:port of the agents that serve the tokenizer's files under `/model/files`."""


@value(frozen=True, slots=True)
class ResolvedModel:
    """A model name as a client wrote it, led to one service (a weighted choice where a ModelRoute says so)."""

    asked_name: str
    service: CatalogueService
    model_name: str
    """The name that the engine answers to; put it into the request's body."""
    adapter: Adapter | None = None
    facts: ModelFacts | None = None
    """None until a worker of the service has identified itself: nothing can be tokenised or routed yet."""


@dataclass(frozen=True, slots=True)
class UnknownModel:
    """No service, route or adapter goes by this name."""

    asked_name: str
    known_names: tuple[str, ...]


@value(frozen=True, slots=True)
class Ask:
    """One request that wants a place."""

    request_id: str
    model: ResolvedModel
    tokens: Tokens | None
    """The prompt, complete; None when it cannot be tokenised here: then load alone decides."""
    salt: str | None = None
    """The salt that the engine sees (`inferplane_engine.identity.engine_salt`), None for none."""
    templated: bool = False
    """The prompt came out of a chat template: a wrong length then speaks against the template first."""
    tenant: str = ""
    priority: int = 0
    """Higher is more important; each step doubles the weight of a missed limit."""
    max_tokens: int = 0
    """0 when the client gave none."""
    ttft_s: float | None = None
    """Limit of this request; None: the service's own."""
    tpot_s: float | None = None
    deadline_s: float | None = None
    """How long the request may wait for a place; None: the service's queue timeout."""
    session: str = ""
    exclude: frozenset[str] = frozenset()
    """Worker ids that must not be chosen."""
    only: frozenset[str] = frozenset()
    """Worker ids of which one must be chosen; empty: any."""
    nonce: int = 0
    """Tells this request from others of the same id, which a client chose; 0 where the id alone does."""
    hashes: dict[int, Hashes] = field(default_factory=dict[int, Hashes], compare=False, repr=False)
    """The prompt's block hashes by the seed of their chain, written down once: a request that waits, is placed again or
    teaches is not hashed again, and whoever knows them beforehand gives them."""


@dataclass(frozen=True, slots=True)
class TargetRef:
    """One data-parallel rank of one worker."""

    worker_id: str
    rank: int
    address: str
    """host:port of the agent's data path."""


@value(frozen=True, slots=True)
class Expectation:
    """Blocks that a routed request will store on a target; sent to its agent as `Expect`."""

    worker_id: str
    rank: int
    hashes: Hashes


@value(frozen=True, slots=True)
class Routed:
    """A place was chosen and is reserved until `complete` or until the agents report the request."""

    request_id: str
    decode: TargetRef
    prefill: tuple[TargetRef, ...]
    """Best first, the others are fall-backs; empty: the decode side prefills."""
    prompt_tokens: int
    prefill_cached_tokens: int
    """Predicted for the side that computes the prompt: `prefill[0]`, or `decode` when there is none."""
    decode_cached_tokens: int
    """Predicted for the decode side before any transfer."""
    ttft_s: float
    tpot_s: float
    expects: tuple[Expectation, ...] = ()
    nonce: int = 0
    """See `Ask`; the agents repeat it."""

    @property
    def uncached_tokens(self) -> int:
        """Prompt tokens that somebody has to compute."""
        return max(0, self.prompt_tokens - self.prefill_cached_tokens)


@dataclass(frozen=True, slots=True)
class Queued:
    """No target has room now; `poll` gives the answer later."""

    request_id: str
    position: int
    deadline: float


class RefusalReason(StrEnum):
    """Why a request got no place; few values, fit for a metric's label."""

    NO_WORKERS = "no_workers"  # 503
    QUEUE_FULL = "queue_full"  # 429
    DEADLINE = "deadline"  # 429: passed, or hopeless from the start


@dataclass(frozen=True, slots=True)
class Refused:
    request_id: str
    reason: RefusalReason
    message: str
    retry_after_s: float


Answer = Routed | Queued | Refused


@dataclass(frozen=True, slots=True)
class Resync:
    """The stream of this worker lost something: ask for a fresh snapshot."""

    rank: int
    reason: str


class Health(StrEnum):
    """Whether a worker gets requests; `health` has the transitions."""

    UNKNOWN = "unknown"  # in the catalogue, has said nothing yet
    STARTING = "starting"
    READY = "ready"
    SUSPECT = "suspect"  # stream lost or requests failed: used only when nobody else is left
    DRAINING = "draining"
    FAILED = "failed"


class KvMode(StrEnum):
    """How the router knows a worker's cache."""

    EXACT = "exact"  # from its events, and predictions have come true
    APPROXIMATE = "approximate"  # from our own decisions, with a time to live


class Mismatch(StrEnum):
    """Why a worker's cache is not what its events make us expect."""

    NONE = "none"
    EVENTS_OFF = "events_off"
    LOST_EVENTS = "lost_events"
    BLOCK_SIZE = "block_size"
    HASH_SEED = "hash_seed"
    TOKENIZER = "tokenizer"
    TEMPLATE = "template"
    SALT = "salt"
    ADAPTER = "adapter"


@dataclass(frozen=True, slots=True)
class WorkerView:
    """One worker as the router sees it."""

    worker_id: str
    namespace: str
    service: str
    pool: str
    role: str
    revision: str
    health: Health
    detail: str
    kv_mode: KvMode
    mismatch: Mismatch
    mismatch_detail: str
    in_flight: int
    uncached_tokens: int
    blocks: int
    """Blocks in its own tiers, as its events say."""
    predictions: int
    """Finished requests whose prediction was compared with what the engine said."""
    exact_predictions: int
    predicted_tokens: int
    observed_tokens: int
    transport: str
    transport_degraded: bool
    address: str = ""
    """Of its agent, host:port."""
    because: str = ""
    """What made its health what it is."""


@dataclass(frozen=True, slots=True)
class ServiceView:
    namespace: str
    name: str
    queued: int
    in_flight: int
    settings: CatalogueService


@dataclass(frozen=True, slots=True)
class Statistics:
    """Everything that `/metrics` and `inferplane diagnose` show, at one moment."""

    workers: tuple[WorkerView, ...]
    services: tuple[ServiceView, ...]
    routed: int
    queued: int
    refused: dict[RefusalReason, int]
    retried: int
    mismatches: dict[Mismatch, int]
    """How often a worker was put into approximate mode, by cause."""
    resyncs: int
    index_blocks: int
    index_bytes: int
    predicted_blocks: int
    """Blocks of routed requests that their workers have not stored yet."""
    refused_blocks: int = 0
    """Blocks for which the present tables, each at its bound, had no room."""
