"""`python -m inferplane_kvstore --config FILE`: the store of one node, until SIGTERM."""

import argparse
import signal
import sys
import threading
from pathlib import Path
from typing import Final

from inferplane_kvstore.app import running
from inferplane_kvstore.config import load
from inferplane_kvstore.errors import StoreError
from inferplane_runtime.logs import configure

_SWEEP_S: Final = 60.0
_FAILED: Final = 2


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m inferplane_kvstore", description=__doc__)
    parser.add_argument("--config", type=Path, required=True, help="JSON file; see docs/how-to/kv-store.md")
    told = parser.parse_args()
    configure(component="kvstore")
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: stop.set())
    try:
        config = load(told.config)
        with running(config) as store:
            while not stop.wait(_SWEEP_S):
                store.inspector.expire({})
    except StoreError as error:
        sys.stderr.write(f"{error}\n")
        return _FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main())
