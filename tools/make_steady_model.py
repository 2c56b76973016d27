"""Write a random Llama whose steps take milliseconds to tens of them on one core: for timing, where nobody reads.

Beside the tiny model's steps an engine's HTTP server and Python are what takes the time.  Here arithmetic is, as on an
accelerator: eight layers of 512, in float32.  Tokenizer and template are the tiny model's.

Usage: PYTHON_OF_THE_ENGINE tools/make_steady_model.py [FOLDER]
"""

import sys
from dataclasses import replace
from pathlib import Path

import make_tiny_model
from atomic_folder import build_once

DEFAULT_FOLDER = Path(".cache/models/steady-llama")
SIZE = replace(make_tiny_model.TINY, hidden=512, intermediate=1408, layers=8, heads=8, kv_heads=4, head=64)


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT_FOLDER
    recipe = Path(__file__).read_text() + Path(make_tiny_model.__file__).read_text()
    built = build_once(folder, recipe, lambda made: make_tiny_model.build(made, SIZE))
    sys.stdout.write(f"{folder}: {'built' if built else 'there already'}\n")


if __name__ == "__main__":
    main()
