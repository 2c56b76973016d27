"""Following the KV store beside the engine: what it holds goes to routers, its figures to the metrics.

One connection, one question after the other; each answer waits in the store until there is something to tell.  A store
that is not there is asked again after a while, and is no reason for anything else to fail.
"""

import asyncio
import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Protocol

import structlog

from inferplane_kv_connector.wire import LENGTH_BYTES, Message, WireError, decoded, frame, length_of
from inferplane_workers.agent import wire
from inferplane_workers.agent.stored_blocks import Moves, StoredBlocks

WAIT_S: Final = 5.0
"""Longest wait for a change, after which the figures are read nevertheless."""
PAUSE_S: Final = 0.1
"""Between two questions: changes of a burst travel together."""
_AGAIN_S: Final = 2.0
_log = structlog.get_logger("inferplane.agent.store")


class StoreListener(Protocol):
    """Hears what became of the store."""

    def store_moved(self, moves: list[Moves], /) -> None: ...

    def store_figures(self, store: str, stat: Mapping[str, Any], /) -> None: ...


class StoreWatch:
    """Runs until it is cancelled."""

    def __init__(self, socket: Path, blocks: StoredBlocks, listener: StoreListener) -> None:
        self._socket = socket
        self._blocks = blocks
        self._listener = listener

    async def run(self) -> None:
        while True:
            try:
                await self._follow()
            except (OSError, asyncio.IncompleteReadError, WireError, KeyError, TypeError, ValueError) as error:
                _log.debug("the KV store does not answer", socket=str(self._socket), error=repr(error))
            self._listener.store_moved(self._blocks.lost())
            await asyncio.sleep(_AGAIN_S)

    async def _follow(self) -> None:
        reader, writer = await asyncio.open_unix_connection(str(self._socket))
        try:
            since = -1
            while True:
                writer.write(frame({"op": "watch", "since": since, "wait_s": WAIT_S}))
                head = await reader.readexactly(LENGTH_BYTES)
                since = self._take(decoded(await reader.readexactly(length_of(head))))
                await asyncio.sleep(PAUSE_S)
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    def _take(self, said: Message) -> int:
        stored, removed = _marks(said["stored"]), _marks(said["removed"])
        if said["whole"]:
            moves = self._blocks.whole(stored, remote=str(said["remote"]))
        else:
            moves = self._blocks.changed(removed, stored)
        self._listener.store_moved(moves)
        self._listener.store_figures(str(said["store"]), said["stat"])
        return int(said["until"])


def _marks(packed: Mapping[str, str]) -> dict[str, frozenset[int]]:
    return {tier: frozenset(wire.unpack(bytes.fromhex(text))) for tier, text in packed.items()}
