"""The agent's settings: every flag, once; the environment variable of `--worker-id` is `INFERPLANE_WORKER_ID`."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, cast

import orjson

from inferplane_runtime.logs import LogFormat, LogLevel
from inferplane_runtime.settings import SettingsError, parse_address, parse_duration, setting
from inferplane_runtime.tracing.config import parse_endpoint
from inferplane_workers.agent.engine_adapter import ADAPTERS


class Role(StrEnum):
    PREFILL = "prefill"
    DECODE = "decode"


class AskedTransport(StrEnum):
    """What KV transfer is meant to use."""

    NONE = ""
    RDMA = "rdma"
    TCP = "tcp"
    SHM = "shm"
    MEMORY = "memory"


class ContentFormat(StrEnum):
    AUTO = "auto"
    STRING = "string"
    OPENAI = "openai"


def parse_json_object(text: str) -> Mapping[str, Any]:
    try:
        value: object = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise ValueError(f"{text!r} is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise ValueError(f'{text!r} must be a JSON object, such as {{"enable_thinking": false}}')  # noqa: TRY004 - about the value given
    return cast("dict[str, Any]", value)


def parse_engine_url(text: str) -> str:
    """Reduce the engine's URL to host:port."""
    rest = text.removeprefix("http://").rstrip("/")
    if "://" in rest or "/" in rest:
        raise ValueError(f"{text!r} must be http://HOST:PORT")
    return parse_address(rest)


def parse_engine(text: str) -> str:
    if text not in ADAPTERS:
        raise ValueError(f"{text!r} is not one of {', '.join(sorted(ADAPTERS))}")
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentConfig:
    """The worker agent beside one engine."""

    worker_id: str = setting(help="name of this worker, unique in its namespace")
    namespace: str = setting(default="default", help="namespace of the InferenceService")
    service: str = setting(help="name of the InferenceService")
    pool: str = setting(help="name of the pool")
    role: Role = setting(help="prefill or decode")
    revision: str = setting(default="", help="revision of the pool's template")
    engine: str = setting(default="vllm", parse=parse_engine, help="engine type: vllm or sim")
    engine_url: str = setting(parse=parse_engine_url, help="the engine's HTTP address, http://127.0.0.1:8200")
    engine_start_file: Path | None = setting(
        default=None, help="file that the engine's container touches at each start"
    )
    kv_events: str = setting(default="", help="ZMQ endpoint of the engine's block events; empty: events are off")
    kv_replay: str = setting(default="", help="ZMQ endpoint of the engine's replay of block events")
    kv_store: Path | None = setting(
        default=None, help="socket of the KV store that the engine uses; its blocks are told to routers"
    )
    listen_http: str = setting(default="0.0.0.0:8100", parse=parse_address, help="data path")
    listen_stream: str = setting(default="0.0.0.0:8101", parse=parse_address, help="worker stream (gRPC)")
    listen_metrics: str = setting(default="0.0.0.0:9090", parse=parse_address, help="metrics page")
    listen_control: str = setting(
        default="", parse=parse_address, help="where the operator loads adapters; empty: nowhere"
    )
    max_adapters: int = setting(default=0, minimum=0, maximum=4096, help="adapters this worker may hold; 0: none")
    max_adapter_rank: int = setting(default=0, minimum=0, help="largest rank of an adapter")
    adapter_root: tuple[Path, ...] = setting(
        default=(), help="folder from which adapters may be loaded, with all below it; repeatable"
    )
    adapter_cache: Path | None = setting(default=None, help="folder into which adapters of a hub are downloaded")
    hub_endpoint: str = setting(default="", help="mirror of the hub; empty: the hub itself")
    hub_ca: Path | None = setting(default=None, help="file of certificates by which a mirror is trusted")
    advertise: str = setting(default="", help="host:port of the data path as others reach it")
    model: str = setting(help="the model's name, as block identity knows it")
    model_revision: str = setting(default="", help="the model's resolved revision")
    model_path: Path | None = setting(
        default=None, help="directory of the model's files, or of the model in a hub's cache; sim: its own model"
    )
    served_name: tuple[str, ...] = setting(
        default=(), help="name under which clients may ask for the model; repeatable"
    )
    chat_template: str = setting(default="", help="the engine's --chat-template: a file, or the template itself")
    chat_template_content_format: ContentFormat = setting(
        default=ContentFormat.AUTO, help="the engine's --chat-template-content-format: auto, string or openai"
    )
    default_chat_template_kwargs: Mapping[str, Any] | None = setting(
        default=None, parse=parse_json_object, help="the engine's --default-chat-template-kwargs, a JSON object"
    )
    exclude_tools_when_tool_choice_none: bool = setting(default=False, help="the engine's flag of that name")
    block_size: int = setting(default=16, minimum=1, help="tokens per KV block")
    dp_size: int = setting(default=1, minimum=1, maximum=1024, help="data-parallel ranks of the engine")
    max_num_seqs: int = setting(default=0, minimum=0, help="requests the engine runs at once, for routers; 0: unknown")
    max_num_batched_tokens: int = setting(default=0, minimum=0, help="tokens per engine step, for routers; 0: unknown")
    zone: str = setting(default="", help="zone, for transfer times between workers")
    accelerator: str = setting(default="", help="accelerator class")
    state_dir: Path = setting(help="memory-backed directory of this agent's own")
    drain_timeout: float = setting(default=30.0, parse=parse_duration, help="longest drain")
    drain_grace: float = setting(default=2.0, parse=parse_duration, help="how long a draining agent still accepts")
    hang_timeout: float = setting(
        default=60.0,
        parse=parse_duration,
        help="no sign of work for this long, with requests in force: the engine hangs",
    )
    engine_silence: float = setting(
        default=3600.0, parse=parse_duration, help="longest time between two bytes of an answer"
    )
    prefill_silence: float = setting(
        default=120.0, parse=parse_duration, help="longest wait for a prefill worker's answer"
    )
    bootstrap_port: int = setting(
        default=8998, minimum=1, maximum=65535, help="where prefill engines that meet decode engines are looked up"
    )
    canary: bool = setting(default=True, help="ask a prompt with a known answer after each start: on or off")
    canary_expect: str = setting(default="", help="the canary's right answer; empty: what the first start said")
    canary_timeout: float = setting(default=120.0, parse=parse_duration, help="longest wait for the canary's answer")
    transfer_check: bool = setting(
        default=True, help="hand a prompt with a known answer over from each prefill worker in use: on or off"
    )
    canary_interval: float = setting(
        default=300.0, parse=parse_duration, help="time between two canaries, and two transfer checks"
    )
    kv_reset: bool = setting(
        default=False, help="empty the engine's prefix cache when block events were lost, so that it is known again"
    )
    kv_transport: AskedTransport = setting(
        default=AskedTransport.NONE, help="transport that KV transfer is meant to use"
    )
    trace_endpoint: str = setting(
        default="", parse=parse_endpoint, help="where spans of traced requests go, as http://HOST:4318; empty: nowhere"
    )
    engine_log: Path | None = setting(default=None, help="the engine's log, read for the transport it chose")
    log_format: LogFormat = setting(default=LogFormat.LOGFMT, help="logfmt, json or console")
    log_level: LogLevel = setting(default=LogLevel.INFO, help="debug, info, warning or error")

    def __post_init__(self) -> None:
        if self.kv_replay and not self.kv_events:
            raise SettingsError("--kv-replay", "needs --kv-events as well")
        for flag, endpoint in (("--kv-events", self.kv_events), ("--kv-replay", self.kv_replay)):
            if endpoint and not endpoint.startswith(("ipc://", "tcp://")):
                raise SettingsError(flag, f"{endpoint!r} must begin with ipc:// or tcp://")

    @property
    def names(self) -> tuple[str, ...]:
        return self.served_name or (self.model,)
