"""Where an adapter's weights lie, as the engine is told: a folder it was given, or one that a hub's files are put into.

Only folders that the agent was started with are taken, whoever asks.  A hub's files are downloaded by a program of its
own, which is given the token and ends; the engine never sees it, and the agent's memory does not grow.
"""

import asyncio
import os
import re
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from inferplane_workers.agent.adapters import Wish

FETCH_PROGRAM: Final = (sys.executable, "-m", "inferplane_workers.fetch")
_COMMIT: Final = re.compile(r"[0-9a-f]{40}")
_WORDS: Final = 500


class SourceError(Exception):
    """The weights cannot be had; the message says why, for people."""


class Hub(Protocol):
    """Puts a repository's files onto this machine."""

    async def fetch(self, repository: str, revision: str, token: str | None) -> str:
        """Return the folder.  Raises SourceError."""
        ...


class AdapterSource:
    """Finds the folder of a wish."""

    def __init__(self, roots: Sequence[Path], hub: Hub) -> None:
        self._roots = [os.path.normpath(root) for root in roots]
        self._hub = hub

    async def locate(self, wish: Wish) -> str:
        """Return the folder that the engine is given.  Raises SourceError."""
        if wish.hf:
            return await self._hub.fetch(wish.hf, wish.revision, _token(wish.token_file))
        return self._folder(wish)

    def _folder(self, wish: Wish) -> str:
        folder = os.path.normpath(wish.path)
        if not any(folder == root or folder.startswith(f"{root.rstrip('/')}/") for root in self._roots):
            known = ", ".join(self._roots) or "none"
            raise SourceError(f"{wish.path} is in no folder that is mounted for adapters ({known})")
        return folder


@dataclass(frozen=True, slots=True)
class DownloadingHub:
    """Downloads by another program, into `cache` (laid out as the hub's own client does)."""

    cache: Path | None
    endpoint: str = ""
    ca_bundle: Path | None = None
    environment: Mapping[str, str] | None = None
    """Of the program; None: this process's own."""
    program: Sequence[str] = FETCH_PROGRAM

    async def fetch(self, repository: str, revision: str, token: str | None) -> str:
        if self.cache is None:
            raise SourceError(f"{repository}: this worker has no folder for a hub's files")
        process = await asyncio.create_subprocess_exec(
            *self.program,
            *self._arguments(self.cache, repository, revision),
            stdin=DEVNULL,
            stdout=DEVNULL,
            stderr=PIPE,
            env=self._environment(token),
        )
        try:
            _, said = await process.communicate()
        finally:
            if process.returncode is None:  # cancelled: the agent ends
                process.kill()
        if process.returncode:
            raise SourceError(f"{repository}: {_last_words(said)}")
        return _snapshot(self.cache, repository, revision)

    def _arguments(self, cache: Path, repository: str, revision: str) -> list[str]:
        args = ["--repository", repository, "--cache", str(cache)]
        args += ["--revision", revision] if revision else []
        args += ["--endpoint", self.endpoint] if self.endpoint else []
        return [*args, "--ca-bundle", str(self.ca_bundle)] if self.ca_bundle else args

    def _environment(self, token: str | None) -> dict[str, str]:
        given = dict(os.environ if self.environment is None else self.environment)
        return {**given, "HF_TOKEN": token} if token else given


def _snapshot(cache: Path, repository: str, revision: str) -> str:
    """Return the folder of a commit, which a branch or tag names by a file."""
    model = cache / f"models--{repository.replace('/', '--')}"
    try:
        known = revision if _COMMIT.fullmatch(revision) else (model / "refs" / (revision or "main")).read_text().strip()
    except OSError as error:
        raise SourceError(f"{repository}: its files were downloaded, but {error}") from error
    return str(model / "snapshots" / known)


def _last_words(said: bytes) -> str:
    lines = [line.strip() for line in said.decode("utf-8", "replace").splitlines() if line.strip()]
    last = lines[-1] if lines else "it could not be downloaded"
    return last.removeprefix("inferplane-fetch: ")[:_WORDS]


def _token(file: str) -> str | None:
    if not file:
        return None
    try:
        return Path(file).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise SourceError(f"the hub's token cannot be read: {error}") from error
