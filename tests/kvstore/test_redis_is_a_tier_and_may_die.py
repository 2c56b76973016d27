"""Against a real server, where there is one."""

import shutil
import socket
import subprocess
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path

import pytest

from inferplane_kvstore.errors import TierError
from inferplane_kvstore.remote import Remote, RemoteSettings
from inferplane_kvstore.resp import RedisAddress, RedisConnection
from inferplane_kvstore.testing import key_of, load, save, served, small_config

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


@pytest.fixture
def server(tmp_path: Path) -> Generator[tuple[subprocess.Popen[bytes], RedisAddress]]:
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("no redis-server on this machine (Debian: redis-server)")
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
    command = [program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--requirepass", "secret"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=tmp_path)
    assert process.stdout is not None
    while b"Ready to accept" not in (line := process.stdout.readline()):
        assert line, "the server ended"
    yield process, RedisAddress("127.0.0.1", port, password="secret")  # noqa: S106 - of this test
    process.kill()
    process.wait()
    process.stdout.close()


Server = tuple[subprocess.Popen[bytes], RedisAddress]


def test_another_node_finds_what_one_has_written(tmp_path: Path, server: Server) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    one, two = (replace(small_config(tmp_path / name), redis=server[1]) for name in ("a", "b"))
    with served(one) as (_, client):
        save(client, KEYS, SIZE)
        client.ask({"op": "settle"})
    with served(two) as (_, client):
        assert client.find(KEYS) == ["redis"] * len(KEYS)
        assert load(client, KEYS) == ["redis"] * len(KEYS)
        assert client.find(KEYS) == ["dram"] * len(KEYS)


def test_a_spoilt_value_is_found_counted_and_removed(tmp_path: Path, server: Server) -> None:
    config = replace(small_config(tmp_path), redis=server[1])
    with served(config) as (_, client):
        save(client, KEYS, SIZE)
        client.ask({"op": "settle"})
    config.dram.path.unlink()
    spoiler = RedisConnection(server[1], deadline_s=5.0)
    for key in KEYS[::4]:
        spoiler.ask([b"SETRANGE", b"inferplane:kv:" + key.hex().encode(), b"5000", b"?"])
    spoiler.close()
    with served(config) as (store, client):
        assert load(client, KEYS).count("bad") == 10
        assert store.store.counters.tiers["redis"].corrupt == 10
        assert client.find(KEYS) == []


def test_a_server_that_dies_takes_only_its_own_blocks(tmp_path: Path, server: Server) -> None:
    config = replace(small_config(tmp_path), redis=server[1], redis_deadline_s=1.0)
    with served(config) as (_, client):
        save(client, KEYS[:20], SIZE)
        client.ask({"op": "settle"})
        server[0].kill()
        server[0].wait()
        assert client.find(KEYS) == ["dram"] * 20
        assert save(client, KEYS[20:], SIZE) == 20
        assert load(client, KEYS) == ["dram"] * 40


def test_a_wrong_password_is_an_error_with_the_servers_words(server: Server) -> None:
    with pytest.raises(TierError, match="WRONGPASS"):
        RedisConnection(replace(server[1], password="wrong"), deadline_s=5.0)  # noqa: S106 - of this test
