"""`python -m inferplane_kvstore --config FILE`: the store of one node, until SIGTERM."""

import argparse
import os
import signal
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Final

import inferplane_runtime.first_process  # noqa: F401 - before all that takes long
from inferplane_kvstore.app import running
from inferplane_kvstore.config import StoreConfig, load, read
from inferplane_kvstore.errors import StoreError
from inferplane_runtime.logs import configure

_SWEEP_S: Final = 60.0
_FAILED: Final = 2


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m inferplane_kvstore", description=__doc__)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--config", type=Path, help="JSON file; see docs/how-to/kv-store.md")
    source.add_argument("--inline", help="the same, as text")
    told = parser.parse_args()
    configure(component="kvstore")
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: stop.set())
    try:
        config = _credentials(read(told.inline) if told.inline else load(told.config))
        with running(config) as store:
            while not stop.wait(_SWEEP_S):
                store.inspector.expire({})
    except StoreError as error:
        sys.stderr.write(f"{error}\n")
        return _FAILED
    return 0


def _credentials(config: StoreConfig) -> StoreConfig:
    """Take Redis' user and password from the environment, where a Secret puts them."""
    user, password = (os.environ.get(f"INFERPLANE_KV_REDIS_{name}", "") for name in ("USER", "PASSWORD"))
    if config.redis is None or not password:
        return config
    return replace(config, redis=replace(config.redis, user=user, password=password))


if __name__ == "__main__":
    sys.exit(main())
