"""What a user's own engine arguments may not change, and where to change it instead.

Arguments are appended last and the last one wins, so a quiet override would leave router, agent and planner believing
something else than the engine does: a second port, another block size.  Such an argument is an error that names the
field to use.  Engines accept underscores, `--flag=value`, dotted JSON keys and unique prefixes of a flag; all of these
are recognised.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from inferplane_engine.launch.spec import LaunchError

OURS: Final = "remove it: it is set for every worker"
CONTROLLED_FLAGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "--host": OURS,
        "--port": OURS,
        "--uds": OURS,
        "--grpc": OURS,
        "--headless": OURS,
        "--config": "write the arguments of that file here",
        "--api-key": "remove it: the engine is reachable by its agent alone",
        "--ssl-keyfile": "remove it: the engine is reachable by its agent alone",
        "--ssl-certfile": "remove it: the engine is reachable by its agent alone",
        "--root-path": OURS,
        "--kv-transfer-config": "use spec.mode and the pools",
        "--kv-events-config": OURS,
        "--served-model-name": "use spec.model.servedNames",
        "--model": "use spec.model",
        "--revision": "use spec.model.revision",
        "--trust-remote-code": "use spec.model.trustRemoteCode",
        "--block-size": "use spec.engine.blockSize",
        "--dtype": "use spec.engine.dtype",
        "--kv-cache-dtype": "use spec.engine.kvCacheDtype",
        "--max-model-len": "use spec.engine.maxModelLen",
        "--kv-cache-memory-bytes": "use spec.engine.kvCacheMemory",
        "--max-num-seqs": "use spec.engine.maxNumSeqs",
        "--max-num-batched-tokens": "use spec.engine.maxNumBatchedTokens",
        "--enable-prefix-caching": "use spec.engine.prefixCaching",
        "--no-enable-prefix-caching": "use spec.engine.prefixCaching",
        "--no-enable-prompt-tokens-details": "remove it: cached tokens are how predictions are checked",
        "--tensor-parallel-size": "use parallelism.tensor of the pool",
        "-tp": "use parallelism.tensor of the pool",
        "--pipeline-parallel-size": "use parallelism.pipeline of the pool",
        "-pp": "use parallelism.pipeline of the pool",
        "--data-parallel-size": "use parallelism.data of the pool",
        "-dp": "use parallelism.data of the pool",
        "--data-parallel-size-local": "use parallelism.data of the pool",
        "-dpl": "use parallelism.data of the pool",
        "--data-parallel-rank": "use parallelism.data of the pool",
        "-dpn": "use parallelism.data of the pool",
        "--data-parallel-start-rank": "use parallelism.data of the pool",
        "-dpr": "use parallelism.data of the pool",
        "--data-parallel-address": OURS,
        "-dpa": OURS,
        "--data-parallel-rpc-port": OURS,
        "-dpp": OURS,
        "--data-parallel-hybrid-lb": "use parallelism.data of the pool",
        "--data-parallel-external-lb": "use parallelism.data of the pool",
        "--enable-expert-parallel": "use parallelism.expert of the pool",
        "-ep": "use parallelism.expert of the pool",
        "--nnodes": "use parallelism and the pool's accelerator class",
        "-n": "use parallelism and the pool's accelerator class",
        "--node-rank": OURS,
        "-r": OURS,
        "--master-addr": OURS,
        "--master-port": OURS,
        "--download-dir": OURS,
        "--lora-modules": "use a LoRAAdapter",
        "--enable-lora": "use spec.engine.lora",
        "--max-loras": "use spec.engine.lora.maxAdapters",
        "--max-cpu-loras": "use spec.engine.lora.maxAdapters",
        "--max-lora-rank": "use spec.engine.lora.maxRank",
        "--shutdown-timeout": "use spec.drainTimeout: the agent drains before the engine is stopped",
    }
)


def guessing_flags(*flags: str) -> Mapping[str, str]:
    """Return the flags that say the same as `spec.engine.speculation`: either of the two, not both."""
    return MappingProxyType(dict.fromkeys(flags, "say it in spec.engine.speculation or in the arguments, not in both"))


SPECULATION_FLAGS: Final = guessing_flags(
    "--speculative-config", "-sc", "--spec-method", "--spec-model", "--spec-tokens"
)
_CONTROLLED_ENVIRONMENT: Final[Mapping[str, str]] = MappingProxyType(
    {
        "VLLM_NIXL_SIDE_CHANNEL_HOST": OURS,
        "VLLM_NIXL_SIDE_CHANNEL_PORT": OURS,
        "VLLM_API_KEY": "remove it: the engine is reachable by its agent alone",
        "VLLM_SERVER_DEV_MODE": "remove it: it opens routes that change the engine",
        "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "use spec.engine.lora",
        "HF_HOME": "remove it: the agent reads the same cache",
        "HF_TOKEN": "use spec.model.secretRef",
    }
)


def check_overrides(
    args: tuple[str, ...],
    env: tuple[tuple[str, str], ...],
    *,
    flags: Mapping[str, str] = CONTROLLED_FLAGS,
    environment: Mapping[str, str] = _CONTROLLED_ENVIRONMENT,
) -> None:
    """Raise LaunchError when the user's arguments or variables change what must stay as it is; default: in vLLM."""
    for index, argument in enumerate(args):
        if (found := _controlled(argument, flags)) is not None:
            flag, fix = found
            name = argument.split("=", 1)[0]
            raise LaunchError(f"engine.args[{index}]", f"{name} sets {flag}, which is fixed", fix, argument=index)
    for name, _ in env:
        if name in environment:
            raise LaunchError(f"engine.env.{name}", "it is fixed", environment[name])


def _controlled(argument: str, flags: Mapping[str, str]) -> tuple[str, str] | None:
    if not argument.startswith("-"):
        return None
    flag = argument.split("=", 1)[0].split(".", 1)[0]
    if not flag.startswith("--"):
        return next(
            ((known, fix) for known, fix in flags.items() if known == flag and not known.startswith("--")),
            None,
        )
    flag = flag.replace("_", "-")
    if flag == "--":
        return None
    # A unique prefix is as good as the flag: `--served` is `--served-model-name`.
    return next(((known, fix) for known, fix in flags.items() if known.startswith(flag)), None)
