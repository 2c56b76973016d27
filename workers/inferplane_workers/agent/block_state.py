"""Maps of blocks kept across restarts of the agent.

Problem: an engine replays only its last ten thousand batches, so an agent that restarts beside a long-running engine
would know little of its cache.  Idea: the maps are written to memory-backed storage before half of that window has
passed, under the engine's start; what came after is replayed by the engine.  Trade-off: writing pauses the agent for
some hundred milliseconds per million blocks, every few thousand batches.
Invariant: a file is data, never code; one that is cut off, foreign, too large, or written for another start is no file.

The file: a mark with the format's version, the CRC-32 of what follows, then msgpack.
"""

import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec
import structlog

from inferplane_workers.agent.rank_blocks import Saved

_MARK: Final = b"inferplane blocks 2\n"
_CHECK_BYTES: Final = 4
MOST_BYTES: Final = 256 * 1024 * 1024
"""Half of the memory-backed folder that agent and engine share."""
_log = structlog.get_logger("inferplane.agent.blocks")


class _File(msgspec.Struct, frozen=True):
    ranks: dict[int, Saved]


class BlockState:
    """One file in the agent's own state directory."""

    def __init__(self, directory: Path, *, most_bytes: int = MOST_BYTES) -> None:
        self._path = directory / "blocks.saved"
        self._most_bytes = most_bytes

    def write(self, ranks: Mapping[int, Saved]) -> None:
        content = msgspec.msgpack.encode(_File(dict(ranks)))
        if len(content) > self._most_bytes:
            _log.warning("blocks are too many to be saved", bytes=len(content), limit=self._most_bytes)
            self._path.unlink(missing_ok=True)  # an older one would have a gap that replay cannot close
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        partial = self._path.with_suffix(".partial")
        partial.write_bytes(_MARK + zlib.crc32(content).to_bytes(_CHECK_BYTES, "big") + content)
        partial.chmod(0o600)
        partial.replace(self._path)

    def read(self, engine_start: str) -> Mapping[int, Saved]:
        """Return what was saved of this very engine; a file of anything else is removed."""
        try:
            ranks = self._ranks()
        except FileNotFoundError:
            return {}
        except (ValueError, OSError) as error:
            return self._useless(str(error))
        if any(rank.engine_start != engine_start for rank in ranks.values()):
            return self._useless("they are of another start of the engine")
        return ranks

    def _ranks(self) -> Mapping[int, Saved]:
        size, most = self._path.stat().st_size, self._most_bytes + len(_MARK) + _CHECK_BYTES
        if size > most:
            raise ValueError(f"the file has {size} bytes, at most {most} are read")
        raw = self._path.read_bytes()
        if not raw.startswith(_MARK):
            raise ValueError("the file is of another format")
        check, content = raw[len(_MARK) :][:_CHECK_BYTES], raw[len(_MARK) + _CHECK_BYTES :]
        if zlib.crc32(content).to_bytes(_CHECK_BYTES, "big") != check:
            raise ValueError("the file is cut off or damaged")
        return msgspec.msgpack.decode(content, type=_File).ranks

    def _useless(self, reason: str) -> Mapping[int, Saved]:
        _log.warning("saved blocks are not used", reason=reason)
        self._path.unlink(missing_ok=True)
        return {}
