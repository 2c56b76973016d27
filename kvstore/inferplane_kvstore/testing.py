"""Fakes and small stores for tests: everything real but its size."""

import contextlib
import hashlib
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path

from inferplane_kv_connector.client import StoreClient
from inferplane_kv_connector.envelope import Label, seal
from inferplane_kv_connector.keys import NOBODY
from inferplane_kvstore.app import Running, running
from inferplane_kvstore.config import FileTier, StoreConfig

SECRET = b"a secret of sixteen bytes or more"


def key_of(number: int, *, kind: str = "") -> bytes:
    return hashlib.blake2b(f"{kind}{number}".encode(), digest_size=32).digest()


def payload_of(key: bytes, size: int) -> bytes:
    """Return bytes that only this block has."""
    return hashlib.shake_128(key).digest(size)


def small_config(folder: Path, *, dram: int = 8 << 20, ssd: int = 0, min_hits: int = 1) -> StoreConfig:
    return StoreConfig(
        socket=folder / "kv.sock",
        secret=SECRET,
        dram=FileTier(folder / "arena", dram),
        ssd=FileTier(folder / "slabs", ssd) if ssd else None,
        min_hits=min_hits,
    )


@contextlib.contextmanager
def served(config: StoreConfig) -> Generator[tuple[Running, StoreClient]]:
    """Run a store in this process with one client."""
    with running(config) as store:
        client = StoreClient(str(config.socket), deadline_s=20.0)
        try:
            yield store, client
        finally:
            client.close()


def with_dram(config: StoreConfig, capacity: int) -> StoreConfig:
    return replace(config, dram=replace(config.dram, capacity=capacity))


def save(client: StoreClient, keys: list[bytes], size: int, *, owner: bytes = NOBODY) -> int:
    """Write blocks as an engine does; return how many were taken."""
    labels = [Label(key, owner, size) for key in keys]
    sealed: list[tuple[bytes, bytes]] = []
    for space in client.put(labels):
        if space is not None:
            space.payload[:] = payload_of(space.label.key, size)
            sealed.append((space.label.key, seal(space.label, space.payload, SECRET)))
    client.commit(sealed)
    return len(sealed)


def load(client: StoreClient, keys: list[bytes]) -> list[str]:
    """Read blocks as an engine does; return for each where it came from, "bad" or "gone"."""
    got = client.get(keys)
    said: list[str] = []
    bad: list[bytes] = []
    for key, held in zip(keys, got, strict=True):
        if held is None:
            said.append("gone")
        elif held.label.key == key and seal(held.label, held.payload, SECRET) == held.tag:
            assert bytes(held.payload) == payload_of(key, held.label.size)  # noqa: S101 - a check that was passed wrongly
            said.append(held.tier)
        else:
            bad.append(key)
            said.append("bad")
    client.release([key for key, held in zip(keys, got, strict=True) if held is not None], bad=bad)
    return said
