import pickle
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest
from structlog.testing import capture_logs

from inferplane_engine.identity import Adapter, KeySpace
from inferplane_engine.kv_events import (
    AllBlocksCleared,
    BlockRemoved,
    BlockStored,
    EventBatch,
    KvEvent,
    PlaneChange,
    encode_batch,
)
from inferplane_workers.agent.block_state import BlockState
from inferplane_workers.agent.rank_blocks import RankBlocks

SPACE = KeySpace("m", "r", 2)


@dataclass
class Heard:
    held: set[int] = field(default_factory=set[int])
    trust: list[bool] = field(default_factory=list[bool])
    voids: int = 0
    lost_batches: int = 0

    def changed(self, dp_rank: int, changes: Iterable[PlaneChange]) -> None:
        del dp_rank
        for change in changes:
            if change.cleared:
                self.held.clear()
            self.held -= set(change.removed.tolist())
            self.held |= set(change.stored.tolist())

    def voided(self, dp_rank: int, reason: str) -> None:
        del dp_rank, reason
        self.held.clear()
        self.voids += 1

    def trusted(self, dp_rank: int, *, trusted: bool, reason: str) -> None:
        del dp_rank, reason
        self.trust.append(trusted)

    def lost(self, dp_rank: int, batches: int) -> None:
        del dp_rank
        self.lost_batches += batches

    def problem(self, dp_rank: int, name: str, count: int) -> None: ...


class Engine:
    """Publishes numbered batches."""

    def __init__(self) -> None:
        self.log: list[tuple[bytes, bytes]] = []
        self.time = 0.0

    def batch(self, *events: KvEvent) -> tuple[bytes, bytes]:
        self.time += 1.0
        frames = len(self.log).to_bytes(8, "big"), encode_batch(EventBatch(self.time, events, 0))
        self.log.append(frames)
        return frames


def stored(name: int, parent: int | None = None) -> BlockStored:
    return BlockStored((name,), parent, (name, name), 2, medium="GPU")


def removed(name: int) -> BlockRemoved:
    return BlockRemoved((name,), medium="GPU")


def rank(heard: Heard) -> RankBlocks:
    blocks = RankBlocks(0, SPACE, adapters=Adapter, listener=heard)
    blocks.begin()
    blocks.replay_ended()
    return blocks


def test_a_gap_that_replay_closes_costs_nothing() -> None:
    heard, engine = Heard(), Engine()
    blocks = rank(heard)
    blocks.live(*engine.batch(stored(1)))
    missed = engine.batch(stored(2, 1))
    wanted = blocks.live(*engine.batch(stored(3, 2)))
    blocks.replayed(*missed)
    blocks.replay_ended()

    assert wanted == 1
    assert len(heard.held) == 3
    assert heard.trust == []


def test_a_gap_that_nobody_can_close_empties_the_map_and_is_said() -> None:
    heard, engine = Heard(), Engine()
    blocks = rank(heard)
    blocks.live(*engine.batch(stored(1)))
    engine.batch(removed(1))
    blocks.live(*engine.batch(stored(9)))
    blocks.replay_ended()

    assert heard.trust == [False]
    assert (heard.voids, heard.lost_batches) == (1, 1)
    assert len(heard.held) == 1


def test_an_engine_that_empties_its_cache_is_known_again() -> None:
    heard, engine = Heard(), Engine()
    blocks = rank(heard)
    engine.batch(stored(1))
    blocks.live(*engine.batch(stored(2)))
    blocks.replay_ended()
    blocks.live(*engine.batch(AllBlocksCleared(), stored(3)))

    assert heard.trust == [False, True]
    assert len(heard.held) == 1


def test_a_restarted_engine_begins_anew_and_is_trusted() -> None:
    heard, engine = Heard(), Engine()
    blocks = rank(heard)
    engine.batch(stored(1))
    blocks.live(*engine.batch(stored(2)))
    blocks.replay_ended()
    again = Engine()
    again.time = 100.0
    blocks.live(*again.batch(stored(5)))

    assert heard.trust == [False, True]
    assert len(heard.held) == 1


def test_two_copies_are_one_block_until_both_are_gone() -> None:
    heard, engine = Heard(), Engine()
    blocks = rank(heard)
    blocks.live(*engine.batch(stored(1), stored(1)))
    blocks.live(*engine.batch(removed(1)))
    one_left = len(heard.held)
    blocks.live(*engine.batch(removed(1)))

    assert (one_left, len(heard.held)) == (1, 0)


def test_events_that_do_not_fit_together_make_the_worker_suspect() -> None:
    heard, engine = Heard(), Engine()
    blocks = rank(heard)
    blocks.live(*engine.batch(stored(2, 1)))

    assert heard.trust == [False]


def test_a_payload_that_is_no_batch_makes_the_worker_suspect() -> None:
    heard = Heard()
    rank(heard).live((0).to_bytes(8, "big"), b"\xff\xff")

    assert heard.trust == [False]


def test_an_agent_that_restarts_goes_on_where_it_stopped(tmp_path: Path) -> None:
    heard, engine = Heard(), Engine()
    first = rank(heard)
    for name in range(1, 6):
        first.live(*engine.batch(stored(name, name - 1 or None)))
    state = BlockState(tmp_path)
    state.write({0: first.save("start-1")})
    later = engine.batch(removed(5))

    heard_again = Heard()
    second = RankBlocks(0, SPACE, adapters=Adapter, listener=heard_again)
    saved = state.read("start-1")
    restored = second.restore(saved[0])
    wanted = second.begin()
    second.replayed(*later)
    second.replay_ended()

    assert restored
    assert wanted == 5
    assert second.blocks == 4
    assert heard_again.trust == []


def test_what_was_saved_of_another_start_is_not_used(tmp_path: Path) -> None:
    state = BlockState(tmp_path)
    state.write({0: rank(Heard()).save("start-1")})

    assert state.read("start-2") == {}
    assert state.read("start-1") == {}


def _cut(raw: bytes) -> bytes:
    return raw[:-3]


def _flipped(raw: bytes) -> bytes:
    return raw[:-1] + bytes((raw[-1] ^ 1,))


def _foreign(_: bytes) -> bytes:
    return pickle.dumps({"ranks": {}})


def _empty(_: bytes) -> bytes:
    return b""


def _of_another_version(raw: bytes) -> bytes:
    return raw.replace(b"blocks 2", b"blocks 1", 1)


def _of_other_content(raw: bytes) -> bytes:
    content = msgspec.msgpack.encode({"ranks": {"0": {"blocks": "none"}}})
    return raw[: raw.index(b"\n") + 1] + zlib.crc32(content).to_bytes(4, "big") + content


@pytest.mark.parametrize("spoil", [_cut, _flipped, _foreign, _empty, _of_another_version, _of_other_content])
def test_a_file_that_is_not_whole_and_ours_is_ignored_with_a_reason(
    tmp_path: Path, spoil: Callable[[bytes], bytes]
) -> None:
    first, engine = rank(Heard()), Engine()
    first.live(*engine.batch(stored(1, None)))
    state = BlockState(tmp_path)
    state.write({0: first.save("start-1")})
    (file,) = tmp_path.iterdir()
    file.write_bytes(spoil(file.read_bytes()))
    with capture_logs() as logs:
        found = state.read("start-1")

    assert found == {}
    assert [entry["event"] for entry in logs] == ["saved blocks are not used"]
    assert logs[0]["reason"]
    assert not file.exists()


def test_a_map_too_large_for_its_folder_is_not_saved(tmp_path: Path) -> None:
    first, engine = rank(Heard()), Engine()
    state = BlockState(tmp_path, most_bytes=1000)
    state.write({0: first.save("start-1")})
    kept = state.read("start-1")
    for name in range(1, 100):
        first.live(*engine.batch(stored(name, name - 1 or None)))
    state.write({0: first.save("start-1")})

    assert list(kept) == [0]
    assert state.read("start-1") == {}


def test_a_file_of_another_block_size_is_not_taken() -> None:
    saved = rank(Heard()).save("s")
    other = RankBlocks(0, KeySpace("m", "r", 4), adapters=Adapter, listener=Heard())

    assert not other.restore(saved)
