"""vLLM's command line, checked against the argument parser of 0.32.

Three things are decided here and nowhere else:
- `engine_id` is not given.  vLLM then draws one per start, which is what decode engines need: they cache a peer's
  memory registrations by that id, and one that outlived a restart would point into memory that is gone.
- KV event endpoints are `ipc://`.  For rank r > 0 vLLM derives an endpoint from the configured one, and knows how to
  for names that hold "inproc" or "tcp" only (it fails on others): the names here hold "inproc", so rank r publishes on
  the same name with `_dpR` appended (see `rank_endpoint`).
- A failed KV load is recomputed: the default fails the request.
- An engine on several nodes is one `vllm serve` per node without Ray: the first serves, the others are `--headless`.
"""

import json
from collections.abc import Mapping
from typing import Final

from inferplane_api.v1alpha1.engine import Device
from inferplane_api.v1alpha1.speculation import SpeculationMethod
from inferplane_engine.launch.overrides import CONTROLLED_FLAGS, SPECULATION_FLAGS, check_overrides
from inferplane_engine.launch.spec import (
    Addresses,
    EngineRole,
    Group,
    Guesses,
    Launch,
    LaunchError,
    LaunchSpec,
    StoreLink,
)
from inferplane_engine.launch.stores import vllm_connector, vllm_environment

PROGRAM: Final = ("vllm", "serve")
_KV_ROLES: Final = {EngineRole.PREFILL: "kv_producer", EngineRole.DECODE: "kv_consumer"}
_RANK_MARK: Final = "inproc"
GROUP_PORT: Final = 29501
"""Where the nodes of one engine meet."""
HEADLESS: Final = "--headless"
NODE_RANK: Final = "--node-rank"
MASTER_ADDRESS: Final = "--master-addr"
_METHODS: Final[Mapping[SpeculationMethod, str]] = {SpeculationMethod.DRAFT: "draft_model"}
"""vLLM's names where they differ."""

_DEFAULT_ENVIRONMENT: Final = (("VLLM_NO_USAGE_STATS", "1"), ("DO_NOT_TRACK", "1"))
_CPU_ENVIRONMENT: Final = (
    # Engines beside each other would all pin themselves to the same cores.
    ("VLLM_CPU_OMP_THREADS_BIND", "nobind"),
    # The first request with logprobs would wait for a compilation of 5-14 s.
    ("TORCHDYNAMO_DISABLE", "1"),
)


def vllm_launch(spec: LaunchSpec) -> Launch:
    """Build the command of one vLLM server.  Raises LaunchError."""
    check_overrides(spec.args, spec.env, flags={**CONTROLLED_FLAGS, **(SPECULATION_FLAGS if spec.guesses else {})})
    program = spec.program or PROGRAM
    args = (*model_arguments(program, spec), *common_arguments(spec), *_device_arguments(spec), *spec.args)
    return Launch(program, args, _environment(spec))


def rank_endpoint(endpoint: str, rank: int) -> str:
    """Return where data-parallel rank `rank` of an engine publishes, given the configured endpoint."""
    return endpoint if rank == 0 else f"{endpoint}_dp{rank}"


def model_arguments(program: tuple[str, ...], spec: LaunchSpec) -> tuple[str, ...]:
    """`vllm serve` takes the model as its first argument, the server's module only as a flag."""
    named = (spec.model,) if program[-1] == "serve" else ("--model", spec.model)
    return (*named, "--served-model-name", *spec.served_names)


def common_arguments(spec: LaunchSpec) -> tuple[str, ...]:
    """Return what vLLM and the simulated engine understand alike."""
    at = spec.addresses
    args = ["--host", at.host, "--port", at.port, "--block-size", str(spec.block_size)]
    args += ["--dtype", spec.dtype, "--kv-cache-dtype", spec.kv_cache_dtype]
    args += _optional("--max-model-len", spec.max_model_len)
    args += _optional("--kv-cache-memory-bytes", spec.kv_cache_memory_bytes)
    args += _optional("--max-num-seqs", spec.max_num_seqs)
    args += _optional("--max-num-batched-tokens", spec.max_num_batched_tokens)
    args += ["--enable-prefix-caching" if spec.prefix_caching else "--no-enable-prefix-caching"]
    args += ["--enable-prompt-tokens-details"]
    args += _parallelism(spec)
    if spec.shutdown_timeout_s > 0:
        args += ["--shutdown-timeout", str(round(spec.shutdown_timeout_s))]
    if at.events:
        args += ["--kv-events-config", _compact(_events(at, spec.data))]
    if spec.role in _KV_ROLES or spec.store is not None or spec.fleet:
        args += ["--kv-transfer-config", _compact(_connectors(spec))]
    return (*args, *_adapters(spec))


def side_channel(at: Addresses) -> tuple[tuple[str, str], ...]:
    return (
        ("VLLM_NIXL_SIDE_CHANNEL_HOST", at.side_channel_host),
        ("VLLM_NIXL_SIDE_CHANNEL_PORT", at.side_channel_port),
    )


def adapter_environment(spec: LaunchSpec) -> dict[str, str]:
    """Return what opens the routes for adapters; nobody but the agent reaches them."""
    return {"VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True"} if spec.adapters is not None else {}


def _optional(flag: str, value: int) -> list[str]:
    return [flag, str(value)] if value else []


def _parallelism(spec: LaunchSpec) -> list[str]:
    args: list[str] = []
    if spec.tensor > 1:
        args += ["--tensor-parallel-size", str(spec.tensor)]
    if spec.pipeline > 1:
        args += ["--pipeline-parallel-size", str(spec.pipeline)]
    if spec.data > 1:
        args += ["--data-parallel-size", str(spec.data)]
    return [*args, "--enable-expert-parallel"] if spec.expert else args


def _events(at: Addresses, ranks: int) -> dict[str, object]:
    if ranks > 1 and _RANK_MARK not in at.events:
        raise LaunchError(
            "parallelism.data",
            f"vLLM cannot derive the event endpoints of {ranks} ranks from {at.events}",
            f"use a socket name that holds {_RANK_MARK!r}",
        )
    return {
        "enable_kv_cache_events": True,
        "publisher": "zmq",
        "endpoint": at.events,
        **({"replay_endpoint": at.replay} if at.replay else {}),
    }


def _connectors(spec: LaunchSpec) -> dict[str, object]:
    """Return how KV blocks come and go: from peers, from the store, from stores of others, in this order."""
    ways = [_transfer(spec)] if spec.role in _KV_ROLES else []
    ways += [] if spec.store is None else [_stored(spec.store)]
    ways += [vllm_connector(store) for store in spec.fleet]
    if len(ways) == 1:
        return ways[0]
    return {
        "kv_connector": "MultiConnector",
        "kv_role": "kv_both",
        "kv_load_failure_policy": "recompute",
        "kv_connector_extra_config": {"connectors": ways},
    }


def _stored(store: StoreLink) -> dict[str, object]:
    given = {"socket": store.socket, "secret_file": store.secret_file, "model": store.model, "revision": store.revision}
    return {
        "kv_connector": "InferplaneConnector",
        "kv_connector_module_path": "inferplane_kv_connector.connector",
        "kv_role": "kv_both",
        "kv_load_failure_policy": "recompute",
        "kv_connector_extra_config": given,
    }


def _transfer(spec: LaunchSpec) -> dict[str, object]:
    config: dict[str, object] = {
        "kv_connector": "NixlConnector",
        "kv_role": _KV_ROLES[spec.role],
        "kv_load_failure_policy": "recompute",
    }
    # On accelerators the engine's own default (its device's memory) is right.
    return {**config, "kv_buffer_device": "cpu"} if spec.device is Device.CPU else config


def _adapters(spec: LaunchSpec) -> list[str]:
    room = spec.adapters
    if room is None:
        return []
    # One more is kept ready than computes at once: a new revision comes before the old one goes.
    kept = str(room.most + 1)
    return [
        *("--enable-lora", "--max-loras", str(room.most), "--max-cpu-loras", kept),
        *("--max-lora-rank", str(room.max_rank)),
    ]


def _device_arguments(spec: LaunchSpec) -> tuple[str, ...]:
    args: list[str] = []
    if spec.revision:
        args += ["--revision", spec.revision]
    if spec.trust_remote_code:
        args += ["--trust-remote-code"]
    args += _group(spec)
    if spec.guesses is not None:
        args += ["--speculative-config", _compact(_speculation(spec.guesses))]
    if spec.device is Device.CPU:
        args += ["--enforce-eager"]
        if _one_process(spec):
            args += ["--distributed-executor-backend", "uni"]
    return tuple(args)


def _group(spec: LaunchSpec) -> list[str]:
    group: Group = spec.group
    if group.nodes == 1:
        return []
    if spec.program and spec.program[-1] != "serve":
        raise LaunchError("engine.command", "only `vllm serve` runs on several nodes", "leave it out, or let it be one")
    args = ["--nnodes", str(group.nodes), NODE_RANK, "0", MASTER_ADDRESS, group.leader]
    return [*args, "--master-port", str(GROUP_PORT), "--distributed-executor-backend", "mp"]


def _speculation(guesses: Guesses) -> dict[str, object]:
    config: dict[str, object] = {
        "method": _METHODS.get(guesses.method, guesses.method.value),
        "num_speculative_tokens": guesses.tokens,
    }
    model = {"model": guesses.model} if guesses.model else {}
    return {**config, **model, **({"revision": guesses.revision} if guesses.revision else {})}


def _environment(spec: LaunchSpec) -> tuple[tuple[str, str], ...]:
    env = dict(_DEFAULT_ENVIRONMENT)
    if spec.device is Device.CPU:
        env |= dict(_CPU_ENVIRONMENT)
        if _one_process(spec):
            # Only then does vLLM keep the model in its scheduler's process: ten seconds and 0.6 GB less per engine.
            env["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    if spec.offline:
        env["HF_HUB_OFFLINE"] = "1"
    env |= adapter_environment(spec)
    if spec.role in _KV_ROLES:
        env |= dict(side_channel(spec.addresses))
    env |= vllm_environment(spec.fleet)
    env |= dict(spec.env)
    return tuple(env.items())


def _one_process(spec: LaunchSpec) -> bool:
    return spec.tensor * spec.pipeline * spec.data == 1


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
