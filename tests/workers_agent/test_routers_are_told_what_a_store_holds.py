"""Blocks of the KV store beside an engine reach routers, and its figures the metrics page."""

import asyncio
import re
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferplane_api.proto import worker_pb2 as pb
from inferplane_kv_connector.client import StoreClient
from inferplane_kv_connector.envelope import Label, seal
from inferplane_kv_connector.keys import NOBODY
from inferplane_kvstore.testing import SECRET, key_of, served, small_config
from inferplane_runtime.metrics.catalogue import kv_store
from inferplane_runtime.metrics.exposition import page
from inferplane_runtime.metrics.instruments import Instruments
from inferplane_workers.agent.store_metrics import StoreMetrics
from inferplane_workers.agent.store_watch import StoreWatch
from inferplane_workers.agent.stored_blocks import Moves, StoredBlocks
from inferplane_workers.agent.wire import PlaneKey

SPACE = b"an-engine"[:8]
MARKS = st.dictionaries(st.sampled_from(("dram", "ssd", "redis")), st.frozensets(st.integers(1, 6)))
STEP = st.tuples(st.booleans(), MARKS, MARKS)


def sums(moves: list[Moves], known: dict[PlaneKey, set[int]]) -> None:
    for move in moves:
        held = known.setdefault(move.key, set())
        assert move.removed <= held
        assert not move.stored & held
        held.difference_update(move.removed)
        held.update(move.stored)


def unpacked(blocks: StoredBlocks) -> dict[PlaneKey, set[int]]:
    return {key: {each[0] for each in struct.iter_unpack("<Q", raw)} for key, raw in blocks.planes()}


@given(steps=st.lists(STEP, max_size=12))
def test_moves_sum_up_to_the_whole_sets(steps: list[tuple[bool, Any, Any]]) -> None:
    blocks, known = StoredBlocks(ranks=2), dict[PlaneKey, set[int]]()
    blocks.whole({}, remote="r")
    for whole, removed, stored in steps:
        sums(blocks.whole(stored, remote="r") if whole else blocks.changed(removed, stored), known)

    assert unpacked(blocks) == known


def test_each_tier_is_a_plane_and_redis_belongs_to_all_who_name_it() -> None:
    blocks = StoredBlocks(ranks=1)
    blocks.whole({"dram": frozenset({1}), "ssd": frozenset({2}), "redis": frozenset({3})}, remote="r")

    assert unpacked(blocks) == {
        PlaneKey(0, pb.PLANE_HOST): {1},
        PlaneKey(0, pb.PLANE_DISK): {2},
        PlaneKey(0, pb.PLANE_REMOTE, "r"): {3},
    }
    blocks.lost()
    assert {key.plane: held for key, held in unpacked(blocks).items()} == {
        pb.PLANE_HOST: set(),
        pb.PLANE_DISK: set(),
        pb.PLANE_REMOTE: {3},
    }


class Hearing:
    """Keeps what it hears; `moved` says that there was something."""

    def __init__(self) -> None:
        self.known: dict[PlaneKey, set[int]] = {}
        self.moved = asyncio.Event()
        self.metrics = Instruments()
        self._metrics = StoreMetrics(self.metrics)

    def store_moved(self, moves: list[Moves], /) -> None:
        sums(moves, self.known)
        if moves:
            self.moved.set()

    def store_figures(self, store: str, stat: Mapping[str, Any], /) -> None:
        self._metrics.take(store, stat)


@pytest.mark.slow
def test_a_real_store_is_followed(tmp_path: Path) -> None:
    async def scenario() -> None:
        heard = Hearing()
        with served(small_config(tmp_path)) as (store, _):
            watch = StoreWatch(store.store.config.socket, StoredBlocks(ranks=1), heard)
            task = asyncio.create_task(watch.run())
            await asyncio.to_thread(_save, store.store.config.socket)
            while heard.known.get(PlaneKey(0, pb.PLANE_HOST)) != {77}:
                heard.moved.clear()
                await heard.moved.wait()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        shown = page(heard.metrics.registry).decode()
        for spec in (kv_store.BLOCKS, kv_store.CAPACITY, kv_store.HITS, kv_store.CORRUPT, kv_store.READ_TIME):
            assert f'\n{spec.name}{"_count" if spec.buckets else ""}{{store="' in shown
        assert re.search(r'inferplane_kvstore_blocks\{store="\w+",tier="dram"\} 1\.0\n', shown)

    asyncio.run(scenario())


def _save(socket: Path) -> None:
    engine = StoreClient(str(socket), deadline_s=20.0, space=SPACE)
    block = Label(key_of(1), NOBODY, 100, 77, SPACE)
    room = engine.put([block])[0]
    assert room is not None
    room.payload[:] = bytes(100)
    engine.commit([(block.key, seal(block, room.payload, SECRET))])
    engine.close()
