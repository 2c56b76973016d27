"""An engine with LMCache, the peer of the KV store's bench: its server in a process of its own, Redis below it."""

import contextlib
import json
import os
import subprocess
from collections.abc import Generator
from pathlib import Path

from _kvstore_setting import Setting, started

from bare_engine import PLUGIN, BareEngine, free_port, tied_to_parent

ON_CPU = Path(__file__).parent / "baselines" / "lmcache_on_cpu"
CHUNK = 256
"""Tokens that LMCache keeps together; its default."""
_GIGABYTES = "1"


@contextlib.contextmanager
def lmcache(python: Path, setting: Setting, name: str) -> Generator[BareEngine]:
    """Run a server and an engine of its own; `python` has vLLM and LMCache."""
    port = free_port()
    with (setting.folder / f"{name}-server.log").open("wb") as log:
        server = subprocess.Popen(tied_to_parent("TERM") + _server(python, setting, name, port), stdout=log, stderr=log)
    transfer = {
        "kv_connector": "LMCacheMPConnector",
        "kv_role": "kv_both",
        "kv_load_failure_policy": "recompute",
        "kv_connector_extra_config": {"lmcache.mp.host": "tcp://127.0.0.1", "lmcache.mp.port": port},
    }
    environment = (
        ("PYTHONPATH", f"{ON_CPU}:{PLUGIN}"),
        ("VLLM_SERVER_DEV_MODE", "1"),
        ("PYTHONHASHSEED", "0"),
    )
    try:
        engine = started(name, setting.model, setting.folder, transfer, environment, python=python)
        try:
            yield engine
        finally:
            engine.stop()
    finally:
        server.terminate()  # which gives its shared memory back
        server.wait()


def _server(python: Path, setting: Setting, name: str, port: int) -> list[str]:
    redis = {"type": "resp", "host": "127.0.0.1", "port": setting.redis.port, "num_workers": 2}
    return [
        str(python.parent / "lmcache"),
        "server",
        *("--host", "127.0.0.1", "--port", str(port)),
        *("--http-host", "127.0.0.1", "--http-port", str(free_port())),
        *("--shm-name", f"{name}-{os.getpid()}"),
        *("--l1-size-gb", _GIGABYTES, "--l1-init-size-gb", _GIGABYTES, "--eviction-policy", "LRU"),
        *("--chunk-size", str(CHUNK), "--max-workers", "1", "--supported-transfer-mode", "engine_driven"),
        *("--l2-adapter", json.dumps(redis)),
    ]
