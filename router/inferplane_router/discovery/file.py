"""Discovery from a file: read whenever it changed, and keep the last good catalogue when it cannot be read.

The file is replaced atomically by whoever writes it, so its identity (device, inode, time, size) tells a change.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import structlog
from pydantic import ValidationError

from inferplane_api.catalogue import Catalogue

_log = structlog.get_logger("inferplane.discovery")
_Identity = tuple[int, int, int, int]


class CatalogueFile:
    """A catalogue in a JSON file."""

    def __init__(
        self,
        path: Path,
        *,
        apply: Callable[[Catalogue], None],
        failed: Callable[[], None],
        interval_s: float = 0.2,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._path = path
        self._apply = apply
        self._failed = failed
        self._interval_s = interval_s
        self._sleep = sleep
        self._seen: _Identity | None = None
        self.read_once = False

    async def watch(self) -> None:
        """Apply every version of the file until cancelled."""
        while True:
            self.look()
            await self._sleep(self._interval_s)

    def look(self) -> None:
        """Apply the file if it changed since the last look."""
        identity = self._identity()
        if identity == self._seen:
            return
        self._seen = identity
        if identity is None:
            self._failed()
            _log.error("the catalogue is gone; the last good one stays", path=str(self._path))
            return
        try:
            catalogue = Catalogue.model_validate_json(self._path.read_bytes())
        except (OSError, ValidationError) as error:
            self._failed()
            _log.error("the catalogue cannot be read; the last good one stays", path=str(self._path), error=str(error))
            return
        self._apply(catalogue)
        self.read_once = True

    def _identity(self) -> _Identity | None:
        try:
            stat = self._path.stat()
        except OSError:
            return None
        return stat.st_dev, stat.st_ino, stat.st_mtime_ns, stat.st_size
