"""The tokenizer's files of the served model, for routers that have no model volume.

Only files that a tokenizer or template is made of are served; weights never.  The digest names the set, so a router
fetches once for any number of equal workers.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import orjson

from inferplane_runtime.http.api import Headers, Response
from inferplane_workers.agent.errors import JSON_HEADER, UnknownPathError, answer

NAMES: Final = frozenset(
    (
        "added_tokens.json",
        "chat_template.jinja",
        "chat_template.json",
        "config.json",
        "generation_config.json",
        "merges.txt",
        "preprocessor_config.json",
        "processor_config.json",
        "special_tokens_map.json",
        "tekken.json",
        "tokenizer.json",
        "tokenizer.model",
        "tokenizer_config.json",
        "vocab.json",
        "vocab.txt",
    )
)
_LARGEST = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """What was found when the agent started."""

    directory: Path
    digest: str
    sizes: Mapping[str, int]

    def listing(self) -> Response:
        body = orjson.dumps({"digest": self.digest, "files": dict(self.sizes)})
        return Response(200, Headers((JSON_HEADER,)), body)

    def file(self, name: str) -> Response:
        """Answer with one listed file; any other name does not exist."""
        if name not in self.sizes:
            return answer(UnknownPathError(f"no such tokenizer file: {name}"))
        body = (self.directory / name).read_bytes()
        return Response(200, Headers(((b"content-type", b"application/octet-stream"),)), body)


def scan(directory: Path | None) -> ModelFiles:
    """Read the directory once; without one there are no files and no digest."""
    if directory is None or not directory.is_dir():
        return ModelFiles(Path(), "", {})
    sizes: dict[str, int] = {}
    whole = hashlib.sha256()
    for path in sorted(_served(directory)):
        content = path.read_bytes()
        sizes[path.name] = len(content)
        whole.update(f"{path.name}\0{len(content)}\0".encode())
        whole.update(hashlib.sha256(content).digest())
    return ModelFiles(directory, whole.hexdigest() if sizes else "", sizes)


def _served(directory: Path) -> list[Path]:
    return [
        path
        for path in directory.iterdir()
        if (path.name in NAMES or path.suffix == ".tiktoken") and path.is_file() and path.stat().st_size <= _LARGEST
    ]
