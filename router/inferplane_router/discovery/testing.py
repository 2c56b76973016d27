"""A source of catalogues that a test plays."""

import asyncio
from collections.abc import Callable

from inferplane_api.catalogue import Catalogue


class FakeDiscovery:
    """Applies what `publish` was given, and reports what `spoil` broke, in order."""

    def __init__(self, *, apply: Callable[[Catalogue], None], failed: Callable[[], None]) -> None:
        self._apply = apply
        self._failed = failed
        self._news: asyncio.Queue[Catalogue | None] = asyncio.Queue()

    def publish(self, catalogue: Catalogue) -> None:
        self._news.put_nowait(catalogue)

    def spoil(self) -> None:
        """Play a source that cannot be read."""
        self._news.put_nowait(None)

    async def watch(self) -> None:
        while True:
            catalogue = await self._news.get()
            if catalogue is None:
                self._failed()
            else:
                self._apply(catalogue)
