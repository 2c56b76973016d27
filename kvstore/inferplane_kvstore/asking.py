"""Asking a running store one question, for people."""

import json
from pathlib import Path

from inferplane_kv_connector.client import StoreClient
from inferplane_kv_connector.wire import Message


def ask(config: Path, message: Message, *, patience_s: float) -> Message | None:
    """Ask the store of this configuration file; None when there is none that answers."""
    try:
        address = str(json.loads(config.read_text())["socket"])
    except (OSError, ValueError, KeyError):
        return None
    client = StoreClient(address, deadline_s=patience_s)
    try:
        return client.ask(message)
    finally:
        client.close()
