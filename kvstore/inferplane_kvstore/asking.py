"""Asking a running store one question, for people: without its memory, and without a word where there is none."""

import json
import socket
from pathlib import Path

from inferplane_kv_connector.wire import Message, receive, send


def ask(config: Path, message: Message, *, patience_s: float) -> Message | None:
    """Ask the store of this configuration file; None when there is none that answers."""
    try:
        address = str(json.loads(config.read_text())["socket"])
    except (OSError, ValueError, KeyError):
        return None
    try:
        return _asked(address, message, patience_s)
    except OSError:
        return None


def _asked(address: str, message: Message, patience_s: float) -> Message | None:
    """Raise OSError when nobody answers in time; None when the question is refused."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(patience_s)
        connection.connect(address)
        send(connection, message)
        reply = receive(connection)
    return None if "error" in reply else reply
