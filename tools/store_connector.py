"""vLLM's `kv_transfer_config` for an engine that a test, a benchmark or a check starts beside a KV store of its own."""

from pathlib import Path
from typing import Any


def transfer_config(socket: Path, secret_file: Path, **settings: float | bool) -> dict[str, Any]:
    """Return the connector alone, with what it has to know; `settings` are the connector's.

    What the store has is loaded even where computing it would be faster, as it is with a tiny model.
    """
    return {
        "kv_connector": "InferplaneConnector",
        "kv_connector_module_path": "inferplane_kv_connector.connector",
        "kv_role": "kv_both",
        "kv_load_failure_policy": "recompute",
        "kv_connector_extra_config": {
            "socket": str(socket),
            "secret_file": str(secret_file),
            "always_fetch": True,
            **settings,
        },
    }
