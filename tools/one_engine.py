"""vLLM without a server, for tests: each line on standard input is a round of prompts, each line back its answers.

Run by the engine's own Python, which has nothing of the project but the connector.  A round begins with an empty prefix
cache.  Lines are JSON: `{"prompts": [[token]], "output": tokens}` and
`{"answers": [[token]], "cached": [tokens], "device": name}`.
"""

import argparse
import json
import sys
from importlib import import_module
from typing import Any


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument(
        "--kv-transfer", type=json.loads, required=True, help="the engine's kv_transfer_config, as JSON"
    )
    told = parser.parse_args()
    replies, sys.stdout = sys.stdout, sys.stderr  # the engine logs to what is then its standard output
    engine: Any = import_module("vllm").LLM(
        model=told.model,
        dtype="float32",
        enforce_eager=True,
        max_model_len=2048,
        block_size=32,
        kv_cache_memory_bytes=64 << 20,
        distributed_executor_backend="uni",  # the model runs in this process: one import of vLLM less
        kv_transfer_config=told.kv_transfer,
    )
    replies.write("ready\n")
    replies.flush()
    for line in sys.stdin:
        replies.write(json.dumps(answered(engine, json.loads(line))) + "\n")
        replies.flush()
    return 0


def answered(engine: Any, asked: dict[str, Any]) -> dict[str, Any]:
    engine.reset_prefix_cache()
    sampling = import_module("vllm").SamplingParams(temperature=0, ignore_eos=True, max_tokens=asked["output"])
    prompts = [{"prompt_token_ids": prompt} for prompt in asked["prompts"]]
    outputs = [engine.generate(prompt, sampling, use_tqdm=False)[0] for prompt in prompts]
    return {
        "answers": [list(output.outputs[0].token_ids) for output in outputs],
        "cached": [output.num_cached_tokens for output in outputs],
        "device": str(import_module("vllm.platforms").current_platform.device_name),
    }


if __name__ == "__main__":
    sys.exit(main())
