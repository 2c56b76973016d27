"""SGLang's command line, checked against the argument classes of 0.5.23; no such engine was run.

What is decided here and nowhere else:
- A prefill engine serves its bootstrap (where decode engines look it up) on the address of its HTTP server, so it
  listens on the worker's address; every other engine is its agent's alone.  Whoever runs it keeps others from its port.
- A decode engine keeps no prefix cache unless `--disaggregation-decode-enable-radix-cache`, an experiment of the
  engine's, is among the user's arguments; nor can it run a prompt itself.
- Events have the format in which a block's hash depends on salt and adapter, and the adapter is named.
- Data parallelism is of whole replicas; with experts spread over them it is of attention, inside one tensor group.
- The engine has one name for its model; an adapter is asked for as NAME:ADAPTER.
- The size of the KV cache has no argument in bytes.
- On several nodes every program has the same arguments but its rank; whole replicas cannot be spread so.
"""

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from inferplane_api.v1alpha1.engine import Device
from inferplane_api.v1alpha1.speculation import SpeculationMethod
from inferplane_engine.launch.overrides import OURS, check_overrides, guessing_flags
from inferplane_engine.launch.spec import EngineRole, Guesses, Launch, LaunchError, LaunchSpec
from inferplane_engine.launch.stores import sglang_arguments, sglang_environment

PROGRAM: Final = ("python3", "-m", "sglang.launch_server")
TRANSFER_BACKEND: Final = "nixl"
"""As vLLM's; another one may be given in the user's arguments, which come later."""

_AGENT_ALONE: Final = "remove it: the engine is reachable by its agent alone"
_CONTROLLED_FLAGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "--host": OURS,
        "--port": OURS,
        "--grpc-port": OURS,
        "--smg-grpc-mode": OURS,
        "--fastapi-root-path": OURS,
        "--config": "write the arguments of that file here",
        "--api-key": _AGENT_ALONE,
        "--admin-api-key": _AGENT_ALONE,
        "--ssl-keyfile": _AGENT_ALONE,
        "--ssl-certfile": _AGENT_ALONE,
        "--model-path": "use spec.model",
        "--model": "use spec.model",
        "--served-model-name": "use spec.model.servedNames",
        "--revision": "use spec.model.revision",
        "--trust-remote-code": "use spec.model.trustRemoteCode",
        "--device": "use spec.engine.device",
        "--dtype": "use spec.engine.dtype",
        "--kv-cache-dtype": "use spec.engine.kvCacheDtype",
        "--context-length": "use spec.engine.maxModelLen",
        "--page-size": "use spec.engine.blockSize",
        "--max-running-requests": "use spec.engine.maxNumSeqs",
        "--chunked-prefill-size": "use spec.engine.maxNumBatchedTokens",
        "--max-prefill-tokens": "use spec.engine.maxNumBatchedTokens",
        "--disable-radix-cache": "use spec.engine.prefixCaching",
        "--tp-size": "use parallelism.tensor of the pool",
        "--tensor-parallel-size": "use parallelism.tensor of the pool",
        "--pp-size": "use parallelism.pipeline of the pool",
        "--pipeline-parallel-size": "use parallelism.pipeline of the pool",
        "--dp-size": "use parallelism.data of the pool",
        "--data-parallel-size": "use parallelism.data of the pool",
        "--attn-dp-size": "use parallelism.data and .expert of the pool",
        "--attention-data-parallel-size": "use parallelism.data and .expert of the pool",
        "--enable-dp-attention": "use parallelism.data and .expert of the pool",
        "--ep": "use parallelism.expert of the pool",
        "--ep-size": "use parallelism.expert of the pool",
        "--expert-parallel-size": "use parallelism.expert of the pool",
        "--nnodes": OURS,
        "--node-rank": OURS,
        "--dist-init-addr": OURS,
        "--disaggregation-mode": "use spec.mode and the pools",
        "--disaggregation-bootstrap-port": OURS,
        "--enable-pd-role-switch": "use spec.mode and the pools",
        "--kv-events-config": OURS,
        "--download-dir": OURS,
        "--enable-lora": "use spec.engine.lora",
        "--lora-paths": "use a LoRAAdapter",
        "--max-loras-per-batch": "use spec.engine.lora.maxAdapters",
        "--max-loaded-loras": "use spec.engine.lora.maxAdapters",
        "--max-lora-rank": "use spec.engine.lora.maxRank",
    }
)
_CONTROLLED_ENVIRONMENT: Final[Mapping[str, str]] = MappingProxyType(
    {
        "SGLANG_HOST_IP": OURS,
        "HOST_IP": OURS,
        "SGLANG_GRPC_PORT": OURS,
        "HF_HOME": "remove it: the agent reads the same cache",
        "HF_TOKEN": "use spec.model.secretRef",
    }
)
_SPECULATION_FLAGS: Final = guessing_flags(
    "--speculative-algorithm",
    "--speculative-draft-model",
    "--speculative-draft-model-path",
    "--speculative-draft-model-revision",
    "--speculative-num-steps",
    "--speculative-num-draft-tokens",
)
_DEVICES: Final = {
    Device.CUDA: "cuda",
    Device.ROCM: "cuda",
    Device.XPU: "xpu",
    Device.NPU: "npu",
    Device.CPU: "cpu",
}
"""SGLang's names: on ROCm, PyTorch calls the device "cuda" too."""
_KV_TYPES: Final = {"fp8": "fp8_e4m3"}
"""Names that vLLM has for the same type."""
_RANK_MARK: Final = "inproc"
GROUP_PORT: Final = 5000
"""Where the nodes of one engine meet."""
_ALGORITHMS: Final[Mapping[SpeculationMethod, str]] = MappingProxyType(
    {
        SpeculationMethod.NGRAM: "NGRAM",
        SpeculationMethod.DRAFT: "STANDALONE",
        SpeculationMethod.EAGLE: "EAGLE",
        SpeculationMethod.EAGLE3: "EAGLE3",
        SpeculationMethod.MTP: "NEXTN",
    }
)


def sglang_launch(spec: LaunchSpec) -> Launch:
    """Build the command of one SGLang server.  Raises LaunchError."""
    flags = {**_CONTROLLED_FLAGS, **(_SPECULATION_FLAGS if spec.guesses else {})}
    check_overrides(spec.args, spec.env, flags=flags, environment=_CONTROLLED_ENVIRONMENT)
    if len(spec.served_names) > 1:
        raise LaunchError("model.servedNames", "SGLang has one name", "keep the first; a ModelRoute gives the others")
    if spec.kv_cache_memory_bytes:
        raise LaunchError(
            "engine.kvCacheMemory",
            "SGLang takes no size in bytes",
            "remove it, and give --mem-fraction-static or --max-total-tokens in engine.args",
        )
    args = (
        *_model(spec),
        *_addresses(spec),
        *_sizes(spec),
        *_parallelism(spec),
        *_group(spec),
        *_speculation(spec.guesses),
        *_transfer(spec),
        *_events(spec),
        *_adapters(spec),
        *_host_cache(spec),
        "--enable-cache-report",
        "--enable-metrics",
        *spec.args,
    )
    return Launch(spec.program or PROGRAM, args, _environment(spec))


def _model(spec: LaunchSpec) -> list[str]:
    args = ["--model-path", spec.model, "--served-model-name", spec.served_names[0]]
    if spec.revision:
        args += ["--revision", spec.revision]
    if spec.trust_remote_code:
        args += ["--trust-remote-code"]
    return [*args, "--device", _DEVICES[spec.device], "--dtype", spec.dtype]


def _addresses(spec: LaunchSpec) -> list[str]:
    at = spec.addresses
    host = at.bind_host if spec.role is EngineRole.PREFILL else at.host
    return ["--host", host, "--port", at.port]


def _sizes(spec: LaunchSpec) -> list[str]:
    args = ["--page-size", str(spec.block_size)]
    args += ["--kv-cache-dtype", _KV_TYPES.get(spec.kv_cache_dtype, spec.kv_cache_dtype)]
    if spec.max_model_len:
        args += ["--context-length", str(spec.max_model_len)]
    if spec.max_num_seqs:
        args += ["--max-running-requests", str(spec.max_num_seqs)]
    if spec.max_num_batched_tokens:
        most = str(spec.max_num_batched_tokens)
        args += ["--chunked-prefill-size", most, "--max-prefill-tokens", most]
    return args if spec.prefix_caching else [*args, "--disable-radix-cache"]


def _parallelism(spec: LaunchSpec) -> list[str]:
    everything = spec.tensor * spec.data
    if spec.expert:
        args = ["--tp-size", str(everything), "--ep-size", str(everything)]
        args += ["--attn-dp-size", str(spec.data)] if spec.data > 1 else []
    else:
        args = ["--tp-size", str(spec.tensor)] if spec.tensor > 1 else []
        args += ["--dp-size", str(spec.data)] if spec.data > 1 else []
    return [*args, "--pp-size", str(spec.pipeline)] if spec.pipeline > 1 else args


def _group(spec: LaunchSpec) -> list[str]:
    group = spec.group
    if group.nodes == 1:
        return []
    return ["--nnodes", str(group.nodes), "--node-rank", "0", "--dist-init-addr", f"{group.leader}:{GROUP_PORT}"]


def _speculation(guesses: Guesses | None) -> list[str]:
    """One chain of guesses: a tree of them would need a number of branches that nobody gave."""
    if guesses is None:
        return []
    args = ["--speculative-algorithm", _ALGORITHMS[guesses.method]]
    if guesses.model:
        args += ["--speculative-draft-model-path", guesses.model]
    if guesses.revision:
        args += ["--speculative-draft-model-revision", guesses.revision]
    if guesses.method is SpeculationMethod.NGRAM:
        return [*args, "--speculative-num-draft-tokens", str(guesses.tokens + 1)]
    args += ["--speculative-num-steps", str(guesses.tokens), "--speculative-eagle-topk", "1"]
    return [*args, "--speculative-num-draft-tokens", str(guesses.tokens + 1)]


def _transfer(spec: LaunchSpec) -> list[str]:
    if spec.role is EngineRole.AGGREGATED:
        return []
    args = ["--disaggregation-mode", spec.role.value, "--disaggregation-transfer-backend", TRANSFER_BACKEND]
    if spec.role is EngineRole.PREFILL:
        args += ["--disaggregation-bootstrap-port", spec.addresses.side_channel_port]
    return args


def _events(spec: LaunchSpec) -> list[str]:
    at = spec.addresses
    if not at.events:
        return []
    if spec.data > 1 and _RANK_MARK not in at.events:
        raise LaunchError(
            "parallelism.data",
            f"SGLang cannot derive the event endpoints of {spec.data} ranks from {at.events}",
            f"use a socket name that holds {_RANK_MARK!r}",
        )
    config = {"publisher": "zmq", "format": "dynamo", "endpoint": at.events, "bind": True}
    replay = {"replay_endpoint": at.replay} if at.replay else {}
    return ["--kv-events-config", _compact({**config, **replay})]


def _adapters(spec: LaunchSpec) -> list[str]:
    room = spec.adapters
    if room is None:
        return []
    # One place in a batch is the model's own; one more is kept ready, for a new revision before the old one goes.
    places = str(room.most + 1)
    return [
        *("--enable-lora", "--max-loras-per-batch", places, "--max-loaded-loras", places),
        *("--max-lora-rank", str(room.max_rank), "--lora-target-modules", "all"),
    ]


def _host_cache(spec: LaunchSpec) -> list[str]:
    """Keep none in a decode engine of a pair, which keeps no prefixes."""
    if spec.role is EngineRole.DECODE:
        return []
    return sglang_arguments(spec.host_cache, spec.fleet, ranks=spec.tensor * spec.pipeline * spec.data)


def _environment(spec: LaunchSpec) -> tuple[tuple[str, str], ...]:
    # Otherwise each question after its health, one a second, has the engine generate a token.
    env = {"SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION": "false"}
    if spec.role is not EngineRole.AGGREGATED:
        env["SGLANG_HOST_IP"] = spec.addresses.side_channel_host
    if spec.offline:
        env["HF_HUB_OFFLINE"] = "1"
    if spec.role is not EngineRole.DECODE:
        env |= sglang_environment(spec.host_cache)
    return tuple((env | dict(spec.env)).items())


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
