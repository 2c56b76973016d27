"""Tokenizer files by digest: fetched from any agent that has them, checked, and kept on disk.

A folder is written beside its place and renamed into it, so a half-fetched model is never read; a folder whose content
no longer has its digest is fetched again.  Nothing an agent says becomes a path: names come from a fixed list.
"""

import re
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import orjson

from inferplane_engine.tokens import ModelFiles, ModelFilesError, files_digest, is_tokenizer_file
from inferplane_engine.tokens.json_shapes import is_object
from inferplane_router.tokenization.agent_call import AgentCallError, AgentCalls

_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


class FileCache:
    """Folders of files, one a digest."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def have(self, digest: str) -> ModelFiles | None:
        """Return the files if they are here and whole (reads them all: not for the event loop)."""
        if not _DIGEST.fullmatch(digest) or not (self._folder / digest).is_dir():
            return None
        try:
            files = ModelFiles.read(self._folder / digest)
        except ModelFilesError:
            return None
        return files if files.digest == digest else None

    def keep(self, digest: str, contents: Mapping[str, bytes]) -> ModelFiles:
        """Write files that have this digest (not for the event loop)."""
        if not _DIGEST.fullmatch(digest) or files_digest(contents.items()) != digest:
            raise ModelFilesError(f"the fetched files do not have the digest {digest[:80]!r}")
        self._folder.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(prefix="part-", dir=self._folder))
        try:
            for name, content in contents.items():
                (part / name).write_bytes(content)
            self._move(part, self._folder / digest)
        finally:
            shutil.rmtree(part, ignore_errors=True)
        return ModelFiles.read(self._folder / digest)

    def _move(self, part: Path, target: Path) -> None:
        try:
            part.rename(target)
        except OSError:  # there already: another process was faster, or a damaged one
            if self.have(target.name) is None:
                shutil.rmtree(target, ignore_errors=True)
                part.rename(target)


async def fetch_files(calls: AgentCalls, address: str, digest: str) -> dict[str, bytes]:
    """Fetch the files of `digest` from one agent."""
    listing = _listing(await calls.get(address, "/model/files"), address)
    if listing.get("digest") != digest:
        raise AgentCallError(f"{address} has other model files than it announced")
    names: Any = listing.get("files")
    if not is_object(names) or not all(map(is_tokenizer_file, names)):
        raise AgentCallError(f"{address} lists files that are no tokenizer files")
    return {name: await calls.get(address, f"/model/files/{name}") for name in names}


def _listing(body: bytes, address: str) -> Mapping[str, Any]:
    try:
        listing: Any = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise AgentCallError(f"{address}/model/files is not JSON: {error}") from error
    if not is_object(listing):
        raise AgentCallError(f"{address}/model/files must be an object")
    return listing
