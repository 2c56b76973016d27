"""Run `vllm bench serve` against a gateway, from the CPU environment.

The CPU build of vLLM is a distribution of another name, and the `vllm` command asks for metadata under its own; so the
program is started as a module, with metadata of that name beside it.  The version there ends in `+cpu`: by that vLLM
tells that it is built for CPUs, and loads kernels that this machine has the instructions for.

Usage: tools/vllm_bench.py URL MODEL_FOLDER SERVED_NAME [arguments of vllm bench serve ...]
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from bare_engine import ENGINE_PYTHON

USAGE_ARGUMENTS = 4
DEFAULTS = ("--dataset-name", "random", "--random-input-len", "256", "--random-output-len", "32", "--num-prompts", "32")


def main() -> int:
    if len(sys.argv) < USAGE_ARGUMENTS:
        sys.stderr.write(f"{__doc__}\n")
        return 2
    url, folder, name = sys.argv[1:USAGE_ARGUMENTS]
    command = [str(ENGINE_PYTHON), "-m", "vllm.entrypoints.cli.main", "bench", "serve"]
    command += ["--base-url", url, "--model", name, "--tokenizer", folder]
    command += sys.argv[USAGE_ARGUMENTS:] or DEFAULTS
    with tempfile.TemporaryDirectory() as beside:
        pretend_to_be_vllm(Path(beside))
        environment = {**os.environ, "PYTHONPATH": beside, "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
        return subprocess.run(command, env=environment, check=False).returncode  # noqa: S603 - the user's own command


def pretend_to_be_vllm(folder: Path) -> None:
    metadata = folder / "vllm-0.32.0+cpu.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0+cpu\n")


if __name__ == "__main__":
    sys.exit(main())
