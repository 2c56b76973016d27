"""What has to be known to start one engine, and what comes out: values only.

Addresses and paths may hold `$(NAME)`: whoever runs the command (a kubelet or the local runner) expands it from the
environment, so one launch serves every replica.
"""

from dataclasses import dataclass
from enum import StrEnum

from inferplane_api.v1alpha1.engine import Device, EngineType, SimOptions
from inferplane_api.v1alpha1.speculation import SpeculationMethod


class EngineRole(StrEnum):
    """What an engine does with KV blocks of others."""

    PREFILL = "prefill"
    """Runs prompts and lets others pull the blocks."""
    DECODE = "decode"
    """Pulls blocks and generates."""
    AGGREGATED = "aggregated"
    """Does both alone: no transfer is set up."""


@dataclass(frozen=True, slots=True)
class AdapterRoom:
    """Room for LoRA adapters, which are loaded while the engine runs."""

    most: int
    max_rank: int = 16


@dataclass(frozen=True, slots=True)
class Guesses:
    """Speculative decoding: `tokens` guessed in a step; `model` is the folder or repository of weights that guess."""

    method: SpeculationMethod
    tokens: int
    model: str = ""
    revision: str = ""


@dataclass(frozen=True, slots=True)
class StoreLink:
    """The KV store beside an engine: its socket, the file that holds its secret, and what its blocks are named by."""

    socket: str
    secret_file: str
    model: str
    revision: str = ""


class FleetKind(StrEnum):
    """Stores of KV blocks that others run."""

    LMCACHE = "lmcache"
    MOONCAKE = "mooncake"


@dataclass(frozen=True, slots=True)
class FleetStore:
    """A store that others run, which the engine reaches by a connector of its own."""

    kind: FleetKind
    host: str
    port: int
    """Of LMCache's server on the engine's machine, or of Mooncake's master."""
    protocol: str = "tcp"
    """How Mooncake moves blocks: tcp or rdma."""
    given_bytes: int = 0
    """Memory that the engine gives to Mooncake, all ranks together; 0: other processes hold the blocks."""
    config_file: str = ""
    """Where vLLM's Mooncake client reads all this; "": the user's environment says."""


@dataclass(frozen=True, slots=True)
class HostCache:
    """SGLang's tiers on its own machine.  Sizes in bytes."""

    memory_bytes: int
    """Of all ranks together."""
    folder: str = ""
    """"": there is no tier on disk."""
    folder_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Group:
    """One engine on several nodes, each with a program of its own; the first one serves."""

    nodes: int = 1
    leader: str = ""
    """Address of the first node, as the others reach it."""


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where one engine listens; ports are texts because they may be `$(NAME)`."""

    host: str = "127.0.0.1"
    port: str = "8200"
    bind_host: str = "0.0.0.0"  # noqa: S104 - of an engine that others must reach
    """Where an engine listens instead whose HTTP server other engines ask."""
    side_channel_host: str = "127.0.0.1"
    """Address that peers reach for the transfer's handshake."""
    side_channel_port: str = "5600"
    """Rank r listens on this plus r; for SGLang the bootstrap's port."""
    events: str = ""
    """ZeroMQ endpoint of KV events; empty: none are published."""
    replay: str = ""


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """One engine's start.  Sizes in bytes and tokens, times in seconds; 0 or "" leaves it to the engine."""

    engine: EngineType
    role: EngineRole
    model: str
    """Directory or repository of the weights; for the simulated engine also its built-in model's name."""
    served_names: tuple[str, ...]
    block_size: int
    program: tuple[str, ...] = ()
    """What takes the arguments; empty: the engine's own default."""
    revision: str = ""
    trust_remote_code: bool = False
    device: Device = Device.CUDA
    dtype: str = "auto"
    kv_cache_dtype: str = "auto"
    max_model_len: int = 0
    kv_cache_memory_bytes: int = 0
    max_num_seqs: int = 0
    max_num_batched_tokens: int = 0
    prefix_caching: bool = True
    tensor: int = 1
    pipeline: int = 1
    data: int = 1
    expert: bool = False
    group: Group = Group()
    guesses: Guesses | None = None
    addresses: Addresses = Addresses()
    adapters: AdapterRoom | None = None
    store: StoreLink | None = None
    fleet: tuple[FleetStore, ...] = ()
    """Stores of others, asked in this order after our own."""
    host_cache: HostCache | None = None
    """Of SGLang; other engines have `store`."""
    shutdown_timeout_s: float = 0.0
    """How long running requests may go on after SIGTERM, and how long the engine may take to end."""
    offline: bool = False
    """The weights are on disk: no hub is asked."""
    sim: SimOptions | None = None
    args: tuple[str, ...] = ()
    """The user's, appended last."""
    env: tuple[tuple[str, str], ...] = ()
    """The user's, winning over our defaults."""


@dataclass(frozen=True, slots=True)
class Launch:
    """A command: `program` and `args` make the argument vector, `env` is added to the environment."""

    program: tuple[str, ...]
    args: tuple[str, ...]
    env: tuple[tuple[str, str], ...]

    @property
    def argv(self) -> tuple[str, ...]:
        return self.program + self.args


class LaunchError(Exception):
    """An engine cannot be started as asked: `field` is relative to `spec`, `fix` says what to do.

    `argument` is the position among the user's arguments, where it is one of them.
    """

    def __init__(self, field: str, message: str, fix: str, *, argument: int | None = None) -> None:
        super().__init__(f"{field}: {message}; {fix}")
        self.field = field
        self.argument = argument
        self.message = message
        self.fix = fix
