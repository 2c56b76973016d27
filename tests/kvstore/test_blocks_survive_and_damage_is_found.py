"""Restarts, kills and damage of every kind: what is found is right, and what is not right is found out."""

import os
import random
import signal
import socket
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from inferplane_kv_connector.client import StoreClient
from inferplane_kv_connector.envelope import HEADER_BYTES, Label, unpack
from inferplane_kv_connector.keys import NOBODY
from inferplane_kvstore.config import parse
from inferplane_kvstore.errors import ConfigError
from inferplane_kvstore.space import PAGE
from inferplane_kvstore.testing import SECRET, key_of, load, payload_of, save, served, small_config, with_dram

KEYS = [key_of(number) for number in range(40)]
SIZE = 10_000


def flip_bits(path: Path, rng: random.Random, every: int) -> set[bytes]:
    """Flip one bit in each `every`th stored block; return their keys."""
    spoilt = set[bytes]()
    with path.open("r+b") as file:
        for offset in range(0, path.stat().st_size, PAGE):
            file.seek(offset)
            header = unpack(file.read(HEADER_BYTES))
            if header is None or KEYS.index(header.label.key) % every:
                continue
            at = offset + HEADER_BYTES + rng.randrange(header.label.size)
            file.seek(at)
            byte = file.read(1)[0]
            file.seek(at)
            file.write(bytes([byte ^ 1 << rng.randrange(8)]))
            spoilt.add(header.label.key)
    return spoilt


def settled(client: StoreClient) -> None:
    client.ask({"op": "settle"})


@pytest.mark.slow
def test_a_store_that_is_started_again_finds_what_was_in_memory(tmp_path: Path) -> None:
    config = small_config(tmp_path)
    with served(config) as (_, client):
        save(client, KEYS, SIZE)
    with served(config) as (_, client):
        assert client.find(KEYS) == ["dram"] * len(KEYS)
        assert load(client, KEYS) == ["dram"] * len(KEYS)


@pytest.mark.slow
def test_blocks_come_back_from_disk_when_memory_is_lost(tmp_path: Path) -> None:
    config = small_config(tmp_path, ssd=8 << 20)
    with served(config) as (_, client):
        save(client, KEYS, SIZE)
        settled(client)
    config.dram.path.unlink()
    with served(config) as (_, client):
        assert client.find(KEYS) == ["ssd"] * len(KEYS)
        assert load(client, KEYS) == ["ssd"] * len(KEYS)
        assert client.find(KEYS) == ["dram"] * len(KEYS)


@pytest.mark.slow
def test_what_was_used_once_stays_above_the_disk(tmp_path: Path) -> None:
    with served(small_config(tmp_path, ssd=8 << 20, min_hits=2)) as (store, client):
        client.find(KEYS)
        save(client, KEYS, SIZE)
        settled(client)
        assert store.store.ssd is not None
        assert not store.store.ssd.entries

        client.find(KEYS[:5])
        settled(client)
        assert set(store.store.ssd.entries) == set(KEYS[:5])


@pytest.mark.slow
@pytest.mark.parametrize("tier", ["dram", "ssd"])
def test_every_flipped_bit_is_found_and_counted(tmp_path: Path, tier: str) -> None:
    config = small_config(tmp_path, ssd=8 << 20)
    with served(config) as (_, client):
        save(client, KEYS, SIZE)
        settled(client)
    spoilt = flip_bits(tmp_path / {"dram": "arena", "ssd": "slabs"}[tier], random.Random(3), 4)
    if tier == "ssd":
        config.dram.path.unlink()
    with served(config) as (store, client):
        said = load(client, KEYS)

        assert {key for key, each in zip(KEYS, said, strict=True) if each == "bad"} == spoilt
        assert store.store.counters.tiers[tier].corrupt == len(spoilt) == 10
        again = load(client, KEYS)
        assert set(again) <= {"dram", "ssd", "gone"}
    with served(config) as (store, client):
        load(client, KEYS)
        assert store.store.counters.tiers[tier].corrupt == 0, "a bad block was found again after a restart"


@pytest.mark.slow
def test_people_can_have_everything_checked(tmp_path: Path) -> None:
    config = small_config(tmp_path, ssd=8 << 20)
    with served(config) as (_, client):
        save(client, KEYS, SIZE)
        settled(client)
    spoilt = flip_bits(tmp_path / "slabs", random.Random(3), 8)
    with served(config) as (_, client):
        assert client.ask({"op": "verify"}) == {"checked": 80, "bad": len(spoilt)}
        assert client.ask({"op": "verify"}) == {"checked": 80 - len(spoilt), "bad": 0}


@pytest.mark.slow
def test_a_file_cut_short_costs_its_blocks_and_nothing_else(tmp_path: Path) -> None:
    config = small_config(tmp_path, ssd=8 << 20)
    with served(config) as (_, client):
        save(client, KEYS, 100_000)
        settled(client)
    config.dram.path.unlink()
    os.truncate(tmp_path / "slabs", 2 << 20)
    with served(config) as (_, client):
        found = client.find(KEYS)
        assert 0 < len(found) < len(KEYS)
        assert set(load(client, KEYS[: len(found)])) == {"ssd"}
        assert save(client, KEYS, 100_000) == len(KEYS) - len(found)


@pytest.mark.slow
def test_two_stores_never_write_to_one_file(tmp_path: Path) -> None:
    config = small_config(tmp_path, ssd=8 << 20)
    second = small_config(tmp_path / "second")
    with served(config), served(replace(second, ssd=config.ssd)) as (store, _):
        assert store.store.ssd is None


@pytest.mark.slow
def test_a_disk_without_room_is_a_tier_less(tmp_path: Path) -> None:
    config = small_config(tmp_path, ssd=1 << 60)
    with served(config) as (store, client):
        assert store.store.ssd is None
        assert (tmp_path / "slabs").stat().st_size == 0, "nobody else's room was taken to find out"
        save(client, KEYS, SIZE)
        assert load(client, KEYS) == ["dram"] * len(KEYS)


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_kill_in_the_middle_of_writes_leaves_whole_blocks_only(tmp_path: Path) -> None:
    config = small_config(tmp_path, ssd=64 << 20)
    config = with_dram(config, 64 << 20)
    (tmp_path / "secret").write_bytes(SECRET)
    text = (
        f'{{"socket": "{config.socket}", "secretFile": "{tmp_path}/secret", "minHits": 1,'
        f' "dram": {{"path": "{config.dram.path}", "capacityBytes": {64 << 20}}},'
        f' "ssd": {{"path": "{tmp_path}/slabs", "capacityBytes": {64 << 20}}}}}'
    )
    (tmp_path / "store.json").write_text(text)
    command = [sys.executable, "-m", "inferplane_kvstore", "--config", str(tmp_path / "store.json")]
    process = subprocess.Popen(command, stderr=subprocess.PIPE)
    assert process.stderr is not None
    assert b"serves" in process.stderr.readline()
    client = StoreClient(str(config.socket), deadline_s=20.0)
    keys = [key_of(number) for number in range(600)]
    killer = threading.Thread(target=process.send_signal, args=(signal.SIGKILL,))
    for start in range(0, len(keys), 20):
        if start == 300:
            killer.start()
        save(client, keys[start : start + 20], 50_000)
    killer.join()
    process.wait()
    process.stderr.close()
    client.close()

    with served(config) as (store, client):
        held = [key for key in keys if client.find([key])]
        assert len(held) >= 200
        assert "bad" not in load(client, held)
        assert store.store.counters.tiers["dram"].corrupt == store.store.counters.tiers["ssd"].corrupt == 0


@pytest.mark.slow
def test_an_engine_that_dies_leaves_nothing_behind(tmp_path: Path) -> None:
    config = small_config(tmp_path)
    with served(config) as (store, client):
        save(client, KEYS[:1], SIZE)
        other = StoreClient(str(config.socket), deadline_s=20.0)
        assert other.get(KEYS[:1])[0] is not None
        assert other.put([Label(KEYS[1], NOBODY, SIZE)])[0] is not None
        entry = store.store.dram.entries[KEYS[0]]
        assert (entry.readers, KEYS[1] in store.store.dram.entries) == (1, True)
        assert client.put([Label(KEYS[1], NOBODY, SIZE)]) == [None]

        other.close()
        with store.store.changed:
            assert store.store.changed.wait_for(lambda: KEYS[1] not in store.store.dram.entries, 20)
        assert save(client, KEYS[1:2], SIZE) == 1


@pytest.mark.slow
def test_a_block_that_is_read_is_not_overwritten(tmp_path: Path) -> None:
    with served(with_dram(small_config(tmp_path), 1 << 20)) as (_, client):
        save(client, KEYS[:1], SIZE)
        held = client.get(KEYS[:1])[0]
        assert held is not None
        for start in range(1, 40):
            save(client, [key_of(1000 + 20 * start + index) for index in range(20)], SIZE)

        assert bytes(held.payload) == payload_of(KEYS[0], SIZE)
        held.payload.release()


def test_a_store_that_is_not_there_or_hangs_is_an_empty_one(tmp_path: Path) -> None:
    absent = StoreClient(str(tmp_path / "none.sock"), deadline_s=0.05, clock=lambda: 0.0)
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / "silent.sock"))
        silent.listen()
        hung = StoreClient(str(tmp_path / "silent.sock"), deadline_s=0.05, clock=lambda: 0.0)
        for client in (absent, hung):
            assert client.find(KEYS) == []
            assert client.get(KEYS[:2]) == [None, None]
            assert client.put([Label(KEYS[0], NOBODY, 1)]) == [None]
            client.commit([(KEYS[0], bytes(32))])
            assert client.failures == 1, "it is asked again only after a while"
            client.close()


@pytest.mark.slow
def test_nonsense_gets_an_error_and_the_connection_lives(tmp_path: Path) -> None:
    with served(small_config(tmp_path)) as (_, client):
        for message in ({"op": "dance"}, {"op": "find"}, {"op": "find", "keys": ["zz"]}, {"op": "put", "blocks": [1]}):
            assert client.ask(message) is None
        assert client.failures == 0
        assert save(client, KEYS, SIZE) == len(KEYS)


@pytest.mark.slow
def test_a_store_started_anew_is_asked_at_once(tmp_path: Path) -> None:
    config = small_config(tmp_path)
    client = StoreClient(str(config.socket), deadline_s=20.0)
    with served(config):
        save(client, KEYS, SIZE)
    with served(config):
        assert client.find(KEYS) == ["dram"] * len(KEYS)
        assert client.failures == 0
    client.close()


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"dram": None}, "dram"),
        ({"dram": {"path": "/x", "capacityBytes": 1}}, "dram.capacityBytes"),
        ({"policy": "fifo"}, "policy"),
        ({"color": 1}, "color"),
        ({"redis": {"url": "http://x"}}, "redis.url"),
        ({"secretFile": "/nowhere"}, "secretFile"),
        ({"ttlS": -1}, "ttlS"),
    ],
)
def test_a_wrong_value_is_named(tmp_path: Path, change: dict[str, object], field: str) -> None:
    (tmp_path / "secret").write_bytes(SECRET)
    good = {
        "socket": "/tmp/kv.sock",  # noqa: S108 - only parsed
        "secretFile": str(tmp_path / "secret"),
        "dram": {"path": "/dev/shm/x", "capacityBytes": 1 << 20},  # noqa: S108 - only parsed
    }
    assert parse(good).ttl_s == 86400.0

    with pytest.raises(ConfigError, match=field):
        parse({**good, **change})


@pytest.mark.slow
def test_quotas_and_tenants_are_kept_apart_on_the_wire(tmp_path: Path) -> None:
    owner = b"tenant-a"
    config = replace(small_config(tmp_path), quotas={owner: 10 * 3 * PAGE})
    with served(config) as (_, client):
        save(client, KEYS[:5], SIZE)
        for number in range(100, 150):
            save(client, [key_of(number)], SIZE, owner=owner)
        said = client.ask({"op": "stat"})

        assert said is not None
        assert said["owners"][owner.hex()] == 10 * 3 * PAGE
        assert client.find(KEYS[:5]) == ["dram"] * 5
