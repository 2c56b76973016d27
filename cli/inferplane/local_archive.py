"""The archive of `dump` for a local instance: its files, the last of logs and decisions, no value of an environment."""

import json
import secrets
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import yaml

from inferplane.archive import Archive
from inferplane.instances import Instance
from inferplane.output import yaml_text
from inferplane.redaction import redacted
from inferplane.shared_records import shared

_LOG_LINES: Final = 5_000
_NOTE: Final = """\
{count} files about the local instance {name}, gathered {when}.
records/ has the last decisions of router and planner and what happened, with a digest in place of each tenant's name.
Values of environment variables, secret arguments and log-in data in addresses are left out.
Logs are as they were written: look into logs/ before you give this to somebody.
"""


def build(instance: Instance, *, when: str) -> Archive:
    state = instance.state
    archive = Archive()
    for file in (state.desired, state.status, state.catalogue):
        if file.is_file():
            archive.files[file.name] = _document(file)
    for log in sorted(state.logs.glob("*.log")):
        archive.files[f"logs/{log.name}"] = b"".join(_last_lines(log))
    key = secrets.token_bytes(16)
    for records in (*sorted(state.records.glob("*.jsonl")), state.root / "decisions.jsonl"):
        if records.is_file():
            archive.files[f"records/{records.name}"] = b"".join(shared(_last_lines(records), key))
    note = _NOTE.format(count=len(archive.files), name=instance.name, when=when)
    archive.files["README"] = note.encode()
    return archive


def _document(file: Path) -> bytes:
    """Return a file redacted; one that cannot be read as what it is might hold anything, and is left out."""
    text = file.read_text(encoding="utf-8", errors="replace")
    try:
        found: object = json.loads(text) if file.suffix == ".json" else yaml.safe_load(text)
    except (ValueError, yaml.YAMLError) as error:
        return f"(damaged: {type(error).__name__})\n".encode()
    shown = redacted({"content": found})["content"]
    return (json.dumps(shown, indent=2, ensure_ascii=False) if file.suffix == ".json" else yaml_text(shown)).encode()


def _last_lines(log: Path) -> Iterator[bytes]:
    with log.open("rb") as file:
        yield from deque(file, maxlen=_LOG_LINES)
