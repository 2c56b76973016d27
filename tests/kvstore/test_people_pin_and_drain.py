"""What people ask of a running store beside its figures: keep these, write all down."""

from dataclasses import replace
from pathlib import Path

import pytest

from inferplane_kvstore.config import tenant_owner
from inferplane_kvstore.testing import key_of, save, served, small_config

SIZE = 200_000
MINE = [key_of(number, kind="mine") for number in range(4)]
OTHERS = [key_of(number, kind="other") for number in range(4)]
FLOOD = [key_of(number, kind="flood") for number in range(400)]
pytestmark = pytest.mark.slow


def test_what_is_pinned_survives_a_flood_and_goes_once_it_is_not(tmp_path: Path) -> None:
    with served(replace(small_config(tmp_path), policy="lru")) as (_, client):
        save(client, MINE, SIZE, owner=tenant_owner("me"))
        save(client, OTHERS, SIZE)
        assert client.ask({"op": "pin", "tenant": "me", "on": True}) == {"pinned": len(MINE)}
        assert client.ask({"op": "pin", "keys": [OTHERS[0].hex()[:16]], "on": True}) == {"pinned": 1}
        for key in FLOOD:  # ten times the capacity
            save(client, [key], SIZE)
        assert client.find(MINE) == ["dram"] * len(MINE)
        assert [len(client.find([key])) for key in OTHERS] == [1, 0, 0, 0]

        client.ask({"op": "pin", "tenant": "me", "on": False})
        for key in FLOOD:
            save(client, [key], SIZE)
        assert client.find(MINE) == []


def test_naming_nothing_pins_nothing(tmp_path: Path) -> None:
    with served(small_config(tmp_path)) as (_, client):
        save(client, MINE, SIZE)

        assert client.ask({"op": "pin", "on": True}) == {"pinned": 0}


def test_draining_writes_down_what_was_used_only_once(tmp_path: Path) -> None:
    config = replace(small_config(tmp_path, ssd=16 << 20), min_hits=5)
    with served(config) as (_, client):
        save(client, MINE, SIZE)
        client.ask({"op": "settle"})
        assert client.ask({"op": "drain"}) == {"blocks": len(MINE), "below": len(MINE)}
    config.dram.path.unlink()
    with served(config) as (_, client):
        assert client.find(MINE) == ["ssd"] * len(MINE)
