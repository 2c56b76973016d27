"""The command line of the simulated engine: vLLM's flags, checked, and a few of its own.

The invariant: every option is a value before anything starts; a flag that vLLM would refuse is refused here too.
"""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast
from uuid import uuid4

import orjson

from inferplane_engine.profiles import CPU_TEST, PROFILES, profile_named
from inferplane_engine.sim.config import EngineConfig, GroupKind, KvGroup, LoadFailurePolicy, Speculation
from inferplane_engine.sim.faults import Fault, parse_fault
from inferplane_engine.timing import TimingProfile

BUILT_IN_MODELS = ("builtin", "inferplane/sim")
_CONTEXT = 32_768
_IGNORED_WITH_VALUE = (
    "--dtype", "--kv-cache-dtype", "--gpu-memory-utilization", "--tensor-parallel-size", "--pipeline-parallel-size",
    "--distributed-executor-backend", "--revision", "--max-loras", "--max-cpu-loras", "--tokenizer", "--max-log-len",
    "--uvicorn-log-level", "--chat-template", "--swap-space", "--load-format", "--api-server-count",
    "--prefix-caching-hash-algo",
)  # fmt: skip
_IGNORED_SWITCHES = (
    "--enforce-eager", "--trust-remote-code", "--enable-expert-parallel", "--enable-chunked-prefill",
    "--disable-log-requests", "--no-enable-log-requests", "--disable-log-stats", "--enable-auto-tool-choice",
    "--async-scheduling", "--disable-uvicorn-access-log",
)  # fmt: skip


class OptionsError(ValueError):
    """A flag is wrong; the message names it."""


@dataclass(frozen=True, slots=True)
class EventsConfig:
    """`--kv-events-config`."""

    endpoint: str = "tcp://*:5557"
    replay_endpoint: str | None = None
    buffer_steps: int = 10_000
    hwm: int = 100_000
    topic: str = ""
    positional: bool = False
    """Encode events as arrays, as older engines did."""


@dataclass(frozen=True, slots=True)
class TransferConfig:
    """`--kv-transfer-config` and the side channel."""

    engine_id: str
    role: str
    load_failure: LoadFailurePolicy
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Adapter:
    name: str
    path: str
    number: int


@dataclass(frozen=True, slots=True)
class LoraOptions:
    """Adapters: whether there may be any, and whether they may come and go while the engine runs."""

    enabled: bool = False
    runtime: bool = False
    max_rank: int = 16


@dataclass(frozen=True, slots=True)
class SimOptions:
    """Everything the server is made of."""

    host: str
    port: int
    model: str
    served_names: tuple[str, ...]
    engine: EngineConfig
    ranks: int
    profile: TimingProfile
    speed: float
    seed: int
    faults: tuple[Fault, ...]
    adapters: tuple[Adapter, ...]
    lora: LoraOptions
    events: EventsConfig | None
    transfer: TransferConfig | None
    prompt_tokens_details: bool
    force_usage: bool
    max_queued: int | None
    shutdown_timeout_s: float
    simulate_start: bool


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m inferplane_workers.sim", description=__doc__, allow_abbrev=False)
    parser.add_argument("model_tag", nargs="?", default=None, help="as --model")
    parser.add_argument("--model", default=None, help="folder with a tokenizer, or 'builtin' (default)")
    parser.add_argument("--served-model-name", nargs="+", default=None)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--block-size", type=int, default=16)
    parser.add_argument("--max-model-len", type=int, default=None)
    parser.add_argument("--max-num-seqs", type=int, default=256)
    parser.add_argument("--max-num-batched-tokens", type=int, default=2048)
    parser.add_argument("--num-gpu-blocks-override", type=int, default=None)
    parser.add_argument("--kv-cache-memory-bytes", type=int, default=None)
    parser.add_argument("--enable-prefix-caching", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--enable-prompt-tokens-details", action=argparse.BooleanOptionalAction, default=False)
    parser.add_argument("--enable-force-include-usage", action=argparse.BooleanOptionalAction, default=False)
    parser.add_argument("--data-parallel-size", type=int, default=1)
    parser.add_argument("--kv-events-config", default=None)
    parser.add_argument("--kv-transfer-config", default=None)
    parser.add_argument("--speculative-config", default=None)
    parser.add_argument("--lora-modules", nargs="+", default=[])
    parser.add_argument("--enable-lora", action="store_true")
    parser.add_argument("--max-lora-rank", type=int, default=16)
    parser.add_argument("--max-num-queued-reqs", type=int, default=None)
    parser.add_argument("--shutdown-timeout", type=float, default=0.0)
    for flag in _IGNORED_WITH_VALUE:
        parser.add_argument(flag, default=None, help=argparse.SUPPRESS)
    for flag in _IGNORED_SWITCHES:
        parser.add_argument(flag, action="store_true", help=argparse.SUPPRESS)
    own = parser.add_argument_group("simulation")
    own.add_argument("--sim-profile", "--profile", default=CPU_TEST.name, help=f"one of {', '.join(PROFILES)}")
    own.add_argument("--sim-speed", "--time-scale", type=float, default=1.0, help="simulated seconds per second")
    own.add_argument("--sim-seed", "--seed", type=int, default=0)
    own.add_argument("--sim-fault", action="append", default=[], help="a fault as JSON; repeatable")
    own.add_argument("--faults", default=None, help="a JSON list of faults")
    own.add_argument("--sim-sliding-window", type=int, default=None, help="add a sliding-window group: a hybrid model")
    own.add_argument("--sim-start-up", action="store_true", help="take the profile's start-up time")
    return parser


def parse_options(arguments: Sequence[str], environment: Mapping[str, str]) -> SimOptions:
    """Read the command line; raises OptionsError."""
    flags = _parser().parse_args(list(arguments))
    profile = _profile(flags.sim_profile)
    if flags.sim_speed <= 0:
        raise OptionsError("--sim-speed: more than 0")
    if flags.data_parallel_size < 1:
        raise OptionsError("--data-parallel-size: at least 1")
    model: str = flags.model or flags.model_tag or BUILT_IN_MODELS[0]
    ranks: int = flags.data_parallel_size
    return SimOptions(
        host=flags.host,
        port=flags.port,
        model=model,
        served_names=tuple(flags.served_model_name or [model]),
        engine=_engine(flags, profile),
        ranks=ranks,
        profile=profile,
        speed=flags.sim_speed,
        seed=flags.sim_seed,
        faults=_faults(flags),
        adapters=tuple(_adapter(text, number) for number, text in enumerate(flags.lora_modules, start=1)),
        lora=LoraOptions(
            enabled=flags.enable_lora,
            runtime=environment.get("VLLM_ALLOW_RUNTIME_LORA_UPDATING", "0").strip().lower() in ("1", "true"),
            max_rank=flags.max_lora_rank,
        ),
        events=_events(flags.kv_events_config),
        transfer=_transfer(flags.kv_transfer_config, environment),
        prompt_tokens_details=flags.enable_prompt_tokens_details,
        force_usage=flags.enable_force_include_usage,
        max_queued=flags.max_num_queued_reqs,
        shutdown_timeout_s=flags.shutdown_timeout,
        simulate_start=flags.sim_start_up,
    )


def _profile(name: str) -> TimingProfile:
    """Find a profile by its name; a bare accelerator means its smallest model."""
    try:
        return profile_named(name if name in PROFILES else f"{name}-8b")
    except ValueError as error:
        raise OptionsError(f"--sim-profile: {error}") from None


def _engine(flags: argparse.Namespace, profile: TimingProfile) -> EngineConfig:
    groups: tuple[KvGroup, ...] = (KvGroup(),)
    if flags.sim_sliding_window is not None:
        groups = (*groups, KvGroup(GroupKind.SLIDING, flags.sim_sliding_window))
    blocks = _blocks(flags, profile)
    fitting = (blocks - 1) // len(groups) * flags.block_size
    max_model_len = flags.max_model_len or min(_CONTEXT, fitting)
    transfer = _object("--kv-transfer-config", flags.kv_transfer_config)
    try:
        return EngineConfig(
            block_size=flags.block_size,
            blocks=blocks,
            max_model_len=max_model_len,
            max_num_seqs=flags.max_num_seqs,
            max_num_batched_tokens=flags.max_num_batched_tokens,
            prefix_caching=flags.enable_prefix_caching,
            groups=groups,
            speculation=_speculation(flags.speculative_config),
            lease_s=_lease(transfer),
            load_failure=LoadFailurePolicy(str(transfer.get("kv_load_failure_policy", "fail"))),
        )
    except ValueError as error:
        raise OptionsError(str(error)) from None


def _blocks(flags: argparse.Namespace, profile: TimingProfile) -> int:
    if flags.num_gpu_blocks_override is not None:
        return int(flags.num_gpu_blocks_override)
    if flags.block_size < 1:
        raise OptionsError("--block-size: at least 1")
    tokens = profile.kv_capacity_tokens
    if flags.kv_cache_memory_bytes is not None:
        tokens = flags.kv_cache_memory_bytes // profile.kv_bytes_per_token
    return 1 + int(tokens) // int(flags.block_size)


def _speculation(text: str | None) -> Speculation | None:
    config = _object("--speculative-config", text)
    if not config:
        return None
    tokens = config.get("num_speculative_tokens", 1)
    rate = config.get("accept_rate", 0.7)
    if not isinstance(tokens, int) or not isinstance(rate, int | float):
        raise OptionsError("--speculative-config: num_speculative_tokens is a whole number, accept_rate a number")
    return Speculation(tokens, float(rate), drop_block=config.get("method", "eagle") in ("eagle", "eagle3", "mtp"))


def _lease(transfer: Mapping[str, object]) -> float:
    extra = transfer.get("kv_connector_extra_config")
    value = cast("dict[str, object]", extra).get("kv_lease_duration", 30) if isinstance(extra, dict) else 30
    if not isinstance(value, int | float) or value <= 0:
        raise OptionsError("--kv-transfer-config: kv_connector_extra_config.kv_lease_duration is a number above 0")
    return float(value)


def _faults(flags: argparse.Namespace) -> tuple[Fault, ...]:
    texts: list[str] = list(flags.sim_fault)
    if flags.faults is not None:
        listed = _json("--faults", flags.faults)
        if not isinstance(listed, list):
            raise OptionsError("--faults: a JSON list of faults")
        texts += [orjson.dumps(entry).decode() for entry in cast("list[object]", listed)]
    try:
        return tuple(parse_fault(text) for text in texts)
    except ValueError as error:
        raise OptionsError(f"--sim-fault: {error}") from None


def _adapter(text: str, number: int) -> Adapter:
    if text.startswith("{"):
        config = _object("--lora-modules", text)
        name, path = config.get("name"), config.get("path")
    else:
        name, _, path = text.partition("=")
    if not isinstance(name, str) or not isinstance(path, str) or not name or not path:
        raise OptionsError('--lora-modules: NAME=PATH or {"name": ..., "path": ...}')
    return Adapter(name, path, number)


def _events(text: str | None) -> EventsConfig | None:
    config = _object("--kv-events-config", text)
    if not config.get("enable_kv_cache_events") or config.get("publisher", "zmq") == "null":
        return None
    default = EventsConfig()
    replay = config.get("replay_endpoint")
    return EventsConfig(
        endpoint=str(config.get("endpoint", default.endpoint)),
        replay_endpoint=None if replay is None else str(replay),
        buffer_steps=int(str(config.get("buffer_steps", default.buffer_steps))),
        hwm=int(str(config.get("hwm", default.hwm))),
        topic=str(config.get("topic", "")),
        positional=bool(config.get("sim_positional", False)),
    )


def _transfer(text: str | None, environment: Mapping[str, str]) -> TransferConfig | None:
    config = _object("--kv-transfer-config", text)
    if not config:
        return None
    role = config.get("kv_role")
    if role not in ("kv_producer", "kv_consumer", "kv_both"):
        raise OptionsError("--kv-transfer-config: kv_role is kv_producer, kv_consumer or kv_both")
    port = environment.get("VLLM_NIXL_SIDE_CHANNEL_PORT", "5600")
    if not port.isdigit():
        raise OptionsError(f"VLLM_NIXL_SIDE_CHANNEL_PORT: a port number, not {port!r}")
    return TransferConfig(
        engine_id=str(config.get("engine_id") or uuid4()),
        role=role,
        load_failure=LoadFailurePolicy(str(config.get("kv_load_failure_policy", "fail"))),
        host=environment.get("VLLM_NIXL_SIDE_CHANNEL_HOST", "localhost"),
        port=int(port),
    )


def _json(flag: str, text: str) -> object:
    try:
        value: object = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise OptionsError(f"{flag}: not JSON: {error}") from None
    return value


def _object(flag: str, text: str | None) -> dict[str, object]:
    if text is None:
        return {}
    value = _json(flag, text)
    if not isinstance(value, dict):
        raise OptionsError(f"{flag}: a JSON object")
    return cast("dict[str, object]", value)
