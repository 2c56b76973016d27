"""`python -m inferplane_kvstore.bringing --into DIR`: put the connector where an engine can import it."""

import argparse
import shutil
import sys
from pathlib import Path

import inferplane_kv_connector


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m inferplane_kvstore.bringing")
    parser.add_argument("--into", type=Path, required=True, help="folder that is on the engine's PYTHONPATH")
    bring(parser.parse_args().into)
    return 0


def bring(into: Path) -> None:
    """Copy the connector's sources, and nothing that was compiled for our Python."""
    source = Path(str(inferplane_kv_connector.__file__)).parent
    shutil.copytree(source, into / source.name, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))


if __name__ == "__main__":
    sys.exit(main())
