"""Whoever follows a store knows which marks lie in which tier, however late and seldom it asks."""

import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferplane_kv_connector.client import StoreClient
from inferplane_kv_connector.envelope import Label, seal
from inferplane_kv_connector.keys import ANY_SPACE, NOBODY
from inferplane_kvstore.journal import Journal, replayed
from inferplane_kvstore.remote_marks import RemoteMarks
from inferplane_kvstore.testing import SECRET, key_of, served, small_config

SPACES: tuple[bytes, bytes] = (b"old-----", b"new-----")
STEP = st.tuples(
    st.sampled_from(("stored", "removed", "connected", "gone", "asked")),
    st.sampled_from(("dram", "ssd")),
    st.sampled_from(SPACES),
    st.integers(1, 5),
)


def label(space: bytes, mark: int) -> Label:
    return Label(key_of(mark, kind=space.decode()), NOBODY, 1, mark, space)


def known(journal: Journal) -> dict[str, set[int]]:
    return {tier: marks for tier, marks in replayed({}, [journal.since(-1)]).items() if marks}


@given(steps=st.lists(STEP, max_size=60), kept=st.integers(1, 5))
def test_the_sum_of_what_was_told_is_what_is_there(steps: list[tuple[str, str, bytes, int]], kept: int) -> None:
    journal, told, at = Journal(kept), dict[str, set[int]](), -1
    there, engines = set[tuple[str, bytes, int]](), dict.fromkeys(SPACES, 0)
    for kind, tier, space, mark in steps:
        is_there = (tier, space, mark) in there
        if kind == "asked":
            changes = journal.since(at)
            told, at = replayed(told, [changes]), changes.until
        elif kind == "stored" and not is_there:
            journal.stored(tier, label(space, mark))
            there.add((tier, space, mark))
        elif kind == "removed" and is_there:
            journal.removed(tier, label(space, mark))
            there.discard((tier, space, mark))
        elif kind == "connected":
            journal.connected(space)
            engines[space] += 1
        elif kind == "gone" and engines[space]:
            journal.gone(space)
            engines[space] -= 1
    told = {tier: marks for tier, marks in replayed(told, [journal.since(at)]).items() if marks}

    assert told == known(journal)
    live = {space for space, count in engines.items() if count}
    if live:
        readable = {(tier, mark) for tier, space, mark in there if space in live}
        assert {(tier, mark) for tier, marks in told.items() for mark in marks} == readable


def test_a_block_in_redis_is_believed_there_until_it_is_missed_or_old() -> None:
    journal = Journal()
    journal.connected(SPACES[0])
    remote = RemoteMarks(journal, ttl_s=10.0, most=3)
    blocks = [label(SPACES[0], mark) for mark in range(1, 6)]

    remote.seen(blocks, now=0.0)
    assert known(journal) == {"redis": {3, 4, 5}}
    remote.missed([blocks[3].key, blocks[0].key])
    assert known(journal) == {"redis": {3, 5}}
    remote.seen(blocks[2:3], now=5.0)
    remote.expire(now=11.0)
    assert known(journal) == {"redis": {3}}
    remote.clear()
    assert known(journal) == {}


def put(client: StoreClient, block: Label) -> None:
    space = client.put([block])[0]
    assert space is not None
    space.payload[:] = bytes(block.size)
    client.commit([(block.key, seal(block, space.payload, SECRET))])


def marks(packed: dict[str, str]) -> dict[str, list[int]]:
    raw = {tier: bytes.fromhex(text) for tier, text in packed.items() if text}
    return {tier: memoryview(words).cast("Q").tolist() for tier, words in raw.items()}


@pytest.mark.slow
def test_a_watch_waits_for_a_change_and_survives_a_restart(tmp_path: Path) -> None:
    config = small_config(tmp_path, ssd=8 << 20)
    with served(config) as (store, watcher):
        first = watcher.ask({"op": "watch", "since": -1, "wait_s": 0})
        assert first is not None
        engine = StoreClient(str(config.socket), deadline_s=20.0, space=SPACES[1])
        writer = threading.Thread(target=lambda: put(engine, label(SPACES[1], 7)))
        writer.start()
        seen, at = dict[str, set[int]](), int(first["until"])
        while 7 not in seen.get("dram", ()):
            said = watcher.ask({"op": "watch", "since": at, "wait_s": 10.0})
            assert said is not None
            at = said["until"]
            for tier, found in marks(said["stored"]).items():
                seen.setdefault(tier, set()).update(found)
        writer.join()
        store.inspector.settle({})
        engine.close()
    with served(config) as (_, watcher):
        engine = StoreClient(str(config.socket), deadline_s=20.0, space=SPACES[1])
        engine.find([])
        said = watcher.ask({"op": "watch", "since": -1})
        engine.close()

    assert said is not None
    assert said["whole"]
    assert marks(said["stored"]) == {"dram": [7], "ssd": [7]}


def test_blocks_of_an_engine_that_is_not_connected_are_no_hits() -> None:
    journal = Journal()
    journal.stored("dram", label(SPACES[0], 1))
    assert known(journal) == {}
    journal.connected(ANY_SPACE)
    assert known(journal) == {}
    journal.connected(SPACES[0])
    assert known(journal) == {"dram": {1}}
    journal.gone(SPACES[0])
    assert known(journal) == {"dram": {1}}, "the last one is expected back"
    journal.connected(SPACES[1])
    assert known(journal) == {}
