"""Against a real server, where there is one."""

import socket
from dataclasses import replace
from pathlib import Path

import pytest

from inferplane_kvstore.errors import TierError
from inferplane_kvstore.remote import Remote, RemoteSettings
from inferplane_kvstore.resp import RedisAddress, RedisConnection
from inferplane_kvstore.testing import key_of, load, save, served, small_config
from real_redis import RealRedis

KEYS = [key_of(number) for number in range(40)]
SIZE = 20_000
pytestmark = pytest.mark.slow


def test_an_address_is_read_with_all_its_parts() -> None:
    assert RedisAddress.parse("cache:7000") == RedisAddress("cache", 7000)
    assert RedisAddress.parse("rediss://me:s%40y@h/3") == RedisAddress("h", 6379, 3, "me", "s@y", tls=True)


def test_a_server_that_is_not_there_is_an_empty_tier_and_asked_seldom() -> None:
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
    now = 0.0
    remote = Remote(RemoteSettings(RedisAddress("127.0.0.1", port), deadline_s=0.2), lambda: now)

    assert remote.present(KEYS) == 0
    assert remote.fetch([(KEYS[0], memoryview(bytearray(10)))]) == [None]
    assert remote.used_bytes() is None
    assert remote.failures == 1


def address(server: RealRedis) -> RedisAddress:
    return RedisAddress("127.0.0.1", server.port, password="secret")  # noqa: S106 - of this test


def test_another_node_finds_what_one_has_written(tmp_path: Path, redis: RealRedis) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    one, two = (replace(small_config(tmp_path / name), redis=address(redis)) for name in ("a", "b"))
    with served(one) as (_, client):
        save(client, KEYS, SIZE)
        client.ask({"op": "settle"})
    with served(two) as (_, client):
        assert client.find(KEYS) == ["redis"] * len(KEYS)
        assert load(client, KEYS) == ["redis"] * len(KEYS)
        assert client.find(KEYS) == ["dram"] * len(KEYS)


def test_a_spoilt_value_is_found_counted_and_removed(tmp_path: Path, redis: RealRedis) -> None:
    config = replace(small_config(tmp_path), redis=address(redis))
    with served(config) as (_, client):
        save(client, KEYS, SIZE)
        client.ask({"op": "settle"})
    config.dram.path.unlink()
    spoiler = RedisConnection(address(redis), deadline_s=5.0)
    for key in KEYS[::4]:
        spoiler.ask([b"SETRANGE", b"inferplane:kv:" + key.hex().encode(), b"5000", b"?"])
    spoiler.close()
    with served(config) as (store, client):
        assert load(client, KEYS).count("bad") == 10
        assert store.store.counters.tiers["redis"].corrupt == 10
        assert client.find(KEYS) == []


def test_what_was_deleted_there_is_written_again(tmp_path: Path, redis: RealRedis) -> None:
    """A bad block is deleted and computed anew, by the store that wrote it as well."""
    config = replace(small_config(tmp_path), redis=address(redis))
    with served(config) as (_, client):
        for _ in range(2):
            save(client, KEYS, SIZE)
            client.ask({"op": "settle"})
            client.ask({"op": "purge"})
        save(client, KEYS, SIZE)
        client.ask({"op": "settle"})
    config.dram.path.unlink()
    with served(config) as (_, client):
        assert client.find(KEYS) == ["redis"] * len(KEYS)


def test_a_server_that_dies_takes_only_its_own_blocks(tmp_path: Path, redis: RealRedis) -> None:
    config = replace(small_config(tmp_path), redis=address(redis), redis_deadline_s=1.0)
    with served(config) as (_, client):
        save(client, KEYS[:20], SIZE)
        client.ask({"op": "settle"})
        redis.kill()
        assert client.find(KEYS) == ["dram"] * 20
        assert save(client, KEYS[20:], SIZE) == 20
        assert load(client, KEYS) == ["dram"] * 40


def test_a_wrong_password_is_an_error_with_the_servers_words(redis: RealRedis) -> None:
    with pytest.raises(TierError, match="WRONGPASS"):
        RedisConnection(replace(address(redis), password="wrong"), deadline_s=5.0)  # noqa: S106 - of this test
