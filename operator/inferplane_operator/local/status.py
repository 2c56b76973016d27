"""What the runner says of an instance: `status.json`, read by the command line.

One value, replaced whole.  `observed_generation` is the desired state that everything below it already reflects, so a
command that changed something waits for its generation and knows that what it then reads is no leftover.
The phase is Ready only when exactly the wanted workers of the newest revision serve and the gateway answers.
"""

from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from inferplane_operator.local.statedir import StateDir, StateError, replace_file


class _Value(BaseModel):
    # Unknown fields are ignored: the command line may be older than the runner that wrote the file.
    model_config = ConfigDict(frozen=True, extra="ignore", alias_generator=to_camel, populate_by_name=True)


class InstancePhase(StrEnum):
    PROGRESSING = "Progressing"
    READY = "Ready"
    DEGRADED = "Degraded"  # something crashed or does not fit; the rest serves
    STOPPING = "Stopping"
    STOPPED = "Stopped"


class WorkerPhase(StrEnum):
    PENDING = "Pending"  # waits for room
    STARTING = "Starting"
    READY = "Ready"
    NOT_READY = "NotReady"  # was ready, is not now
    CRASH_LOOP = "CrashLoop"
    DRAINING = "Draining"


class ChildStatus(_Value):
    """One process."""

    name: str
    state: str
    pid: int | None = None
    restarts: int = 0
    crash_looping: bool = False
    last_exit: str = Field(default="", description="How it ended last, in words.")
    last_log: tuple[str, ...] = Field(default=(), description="Last lines of its log when it ended by itself.")


class WorkerStatus(_Value):
    name: str
    pool: str
    role: str
    revision: str
    phase: WorkerPhase
    reason: str = Field(default="", description="Why it is not ready, in words; empty when it is.")
    http: str = Field(default="", description="host:port of the agent's data path.")
    stream: str = ""
    metrics: str = ""
    control: str = Field(default="", description="host:port where adapters are loaded; empty: nowhere.")
    engine_url: str = ""
    gpus: tuple[str, ...] = ()
    ready_once: bool = False
    agent: ChildStatus | None = None
    engine: ChildStatus | None = None


class PoolStatus(_Value):
    name: str
    role: str
    replicas: int
    ready: int
    updated: int = Field(description="Workers of the newest revision.")
    revision: str
    min_replicas: int
    max_replicas: int


class AdapterStatus(_Value):
    """One LoRAAdapter."""

    name: str
    served_name: str
    revision: str = ""
    loaded_on: int = 0
    wanted_on: int = Field(default=0, description="Ready workers, which shall all have it.")
    ready: bool = False
    failed: bool = Field(default=False, description="Waiting alone would not help.")
    message: str = Field(default="", description="Where it is, and what is in the way elsewhere.")


class KVStoreStatus(_Value):
    """The KVStore of the instance: its process.  What it holds it tells whoever asks it."""

    name: str
    process: ChildStatus


class Status(_Value):
    namespace: str = "default"
    service: str
    observed_generation: int = 0
    phase: InstancePhase = InstancePhase.PROGRESSING
    message: str = Field(default="", description="What is in the way of Ready.")
    runner_pid: int = 0
    started_at: float = Field(default=0.0, description="Wall clock, seconds since 1970.")
    served_names: tuple[str, ...] = ()
    url: str = Field(default="", description="The gateway, once it listens.")
    grpc: str = Field(default="", description="host:port of the Router service.")
    metrics: str = Field(default="", description="host:port of the router's metrics.")
    gateway_reason: str = Field(
        default="", description="Why the gateway does not answer, in words; empty when it does."
    )
    router: ChildStatus | None = None
    pools: tuple[PoolStatus, ...] = ()
    workers: tuple[WorkerStatus, ...] = ()
    adapters: tuple[AdapterStatus, ...] = ()
    kv_store: KVStoreStatus | None = Field(default=None, description="None: the service names no KVStore.")


def write_status(state: StateDir, status: Status) -> None:
    replace_file(state.status, status.model_dump_json(by_alias=True, indent=2) + "\n")


def read_status(state: StateDir) -> Status | None:
    """Return the last status, or None when no runner has written one."""
    try:
        text = state.status.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise StateError(f"{state.status}: cannot be read ({error})") from error
    try:
        return Status.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        problem = f"{where}: {first['msg']}" if where else first["msg"]
        raise StateError(f"{state.status}: {problem}; its runner or `inferplane up` writes it again") from error
