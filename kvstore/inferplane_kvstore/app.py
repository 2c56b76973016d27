"""Composition root: makes tiers, store, writers and server, and owns their start and end."""

import contextlib
import socket
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

import structlog

from inferplane_kvstore.config import StoreConfig
from inferplane_kvstore.errors import TierError
from inferplane_kvstore.inspecting import Inspector
from inferplane_kvstore.promoting import Promoter
from inferplane_kvstore.remote import Remote, RemoteSettings
from inferplane_kvstore.server import Server
from inferplane_kvstore.session import Session
from inferplane_kvstore.spilling import spillers
from inferplane_kvstore.store import Store
from inferplane_kvstore.stretch import DiskStretch, MemoryStretch
from inferplane_kvstore.watching import Watching

READERS: Final = 4
"""Blocks read from disk at once, for all engines."""
_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Running:
    store: Store
    inspector: Inspector


@contextlib.contextmanager
def running(config: StoreConfig, *, clock: Callable[[], float] = time.monotonic) -> Generator[Running]:
    """Serve until the block ends.  Raises TierError when there is no DRAM; other tiers may be missing."""
    arena = MemoryStretch(config.dram.path, config.dram.capacity)
    disk = _disk(config)
    remote = _remote(config, clock)
    store = Store(config, arena=arena, disk=disk, remote=remote, clock=clock)
    writers = spillers(store)
    with ThreadPoolExecutor(READERS, thread_name_prefix="read") as readers:
        promoter = Promoter(store, readers)
        inspector = Inspector(store, writers)
        watching = Watching(store, inspector.stat, host=socket.gethostname())
        server = Server(config.socket, arena.descriptor, lambda: Session(store, promoter, inspector, watching))
        for writer in writers:
            writer.start()
        server.start()
        _log.info("the KV store serves", socket=str(config.socket), blocks=len(store.dram.entries))
        try:
            yield Running(store, inspector)
        finally:
            store.close()
            server.stop()
            for writer in writers:
                writer.stop()
            for tier in (arena, disk, remote):
                if tier is not None:
                    tier.close()


def _disk(config: StoreConfig) -> DiskStretch | None:
    if config.ssd is None:
        return None
    try:
        return DiskStretch(config.ssd.path, config.ssd.capacity)
    except TierError as error:
        _log.error("the ssd tier is off", error=str(error))
        return None


def _remote(config: StoreConfig, clock: Callable[[], float]) -> Remote | None:
    if config.redis is None:
        return None
    return Remote(RemoteSettings(config.redis, ttl_s=config.ttl_s, deadline_s=config.redis_deadline_s), clock)
