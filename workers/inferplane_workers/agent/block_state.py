"""Maps of blocks kept across restarts of the agent.

Problem: an engine replays only its last ten thousand batches, so an agent that restarts beside a long-running engine
would know little of its cache.  Idea: the maps are written to memory-backed storage before half of that window has
passed, under the engine's start; what came after is replayed by the engine.  Trade-off: writing pauses the agent for
about a second per million blocks, every few thousand batches.
Invariant: a file is used only with the engine start, and by the code version, that it was written for.
"""

import pickle
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog

from inferplane_workers.agent.rank_blocks import Saved

_FORMAT: Final = "inferplane-blocks-1"
_log = structlog.get_logger("inferplane.agent.blocks")


@dataclass(frozen=True, slots=True)
class _File:
    format: str
    version: str
    ranks: Mapping[int, Saved]


class BlockState:
    """One file in the agent's own state directory."""

    def __init__(self, directory: Path, *, version: str) -> None:
        self._path = directory / "blocks.pickle"
        self._version = version

    def write(self, ranks: Mapping[int, Saved]) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        partial = self._path.with_suffix(".partial")
        partial.write_bytes(pickle.dumps(_File(_FORMAT, self._version, dict(ranks)), pickle.HIGHEST_PROTOCOL))
        partial.chmod(0o600)
        partial.replace(self._path)

    def read(self, engine_start: str) -> Mapping[int, Saved]:
        """Return what was saved of this very engine; a file of anything else is removed."""
        try:
            raw = self._path.read_bytes()
        except FileNotFoundError:
            return {}
        try:
            # The directory belongs to this agent alone (mode 0600, memory-backed): its file is as trusted as our code.
            found: object = pickle.loads(raw)  # noqa: S301
        except (pickle.UnpicklingError, AttributeError, EOFError, ImportError, IndexError, TypeError) as error:
            _log.warning("saved blocks are unreadable", error=str(error))
            found = None
        if isinstance(found, _File) and self._fits(found, engine_start):
            return found.ranks
        self._path.unlink(missing_ok=True)
        return {}

    def _fits(self, file: _File, engine_start: str) -> bool:
        if (file.format, file.version) != (_FORMAT, self._version):
            return False
        return _all_of(file.ranks.values(), engine_start)


def _all_of(saved: Iterable[Saved], engine_start: str) -> bool:
    return all(rank.engine_start == engine_start for rank in saved)
