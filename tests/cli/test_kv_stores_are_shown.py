"""The KV store of a local instance, as `status` and `kv` show it."""

import json
from collections.abc import Generator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from inferplane.context import Context
from inferplane.testing import Call, make_instance, status_of
from inferplane_kv_connector.client import StoreClient
from inferplane_kvstore.config import StoreConfig
from inferplane_kvstore.testing import key_of, load, save, served, small_config
from inferplane_operator.local.lock import hold_runner_lock
from inferplane_operator.local.status import ChildStatus, KVStoreStatus

KEYS = [key_of(number) for number in range(4)]
SIZE = 200_000


@pytest.fixture
def kept(context: Context, tmp_path: Path) -> Generator[StoreConfig]:
    """An instance that has a KV store, which does not run yet."""
    process = ChildStatus(name="kv-store", state="backoff", last_exit="exited with status 2")
    status = status_of("kept").model_copy(update={"kv_store": KVStoreStatus(name="cache", process=process)})
    state = make_instance(context, "kept", status)
    config = small_config(tmp_path)
    state.kv_config.write_text(json.dumps({"socket": str(config.socket)}))
    with hold_runner_lock(state):
        yield config


@pytest.fixture
def store(kept: StoreConfig) -> Generator[StoreClient]:
    """Its store, in which four blocks are, two of them read."""
    with capture_logs(), served(kept) as (_, client):  # its threads' words are not the command's output
        save(client, KEYS, SIZE)
        client.find(KEYS[:2])
        load(client, KEYS[:2])
        yield client


@pytest.mark.usefixtures("store")
def test_status_shows_what_the_store_holds_and_was_good_for(call: Call) -> None:
    lines = call("status", "kept").stdout.splitlines()
    at = lines.index("kv store cache: 100 % of 2 blocks asked for were there")

    assert lines[at + 1].split()[:5] == ["TIER", "USED", "CAPACITY", "BLOCKS", "HITS"]
    assert lines[at + 2].split() == ["dram", "784Ki", "8Mi", "4", "2", "4", "0", "0", "0", "-"]


@pytest.mark.usefixtures("store")
def test_the_figures_are_in_the_document_too(call: Call) -> None:
    said = json.loads(call("status", "kept", "-o", "json").stdout)["kvStore"]

    assert said["name"] == "cache"
    assert said["figures"]["tiers"][0]["blocks"] == len(KEYS)


@pytest.mark.usefixtures("kept")
def test_a_store_that_does_not_answer_is_said_with_what_it_means(call: Call) -> None:
    result = call("status", "kept")

    assert result.exit_code == 0
    assert (
        "kv store cache: does not answer (its process: backoff; exited with status 2); engines compute everything"
        in result.stdout
    )
    assert "figures" not in json.loads(call("status", "kept", "-o", "json").stdout)["kvStore"]


@pytest.mark.usefixtures("kept")
def test_kv_says_that_no_store_answers_and_nothing_else(call: Call) -> None:
    result = call("kv", "stat")

    assert result.exit_code == 1
    assert result.stderr == "error: kept has no KV store that answers; name one in spec.kvStore and see its log\n"


@pytest.mark.usefixtures("store")
def test_blocks_are_listed_pinned_and_freed(call: Call) -> None:
    first = KEYS[0].hex()
    pinned = call("kv", "pin", first[:16])
    listed = {row.split()[0]: row.split()[-1] for row in call("kv", "ls").stdout.splitlines()[1:]}

    assert pinned.stdout == "1 blocks pinned\n"
    assert listed == {key.hex()[:16]: "yes" if key == KEYS[0] else "-" for key in KEYS}
    assert call("kv", "unpin", first[:16]).stdout == "1 blocks may go\n"
    assert "yes" not in call("kv", "ls").stdout


@pytest.mark.usefixtures("store")
def test_verify_purge_and_drain_say_how_many(call: Call) -> None:
    assert call("kv", "verify").stdout == "4 blocks checked, 0 bad\n"
    assert call("kv", "drain").stdout == "0 of 4 blocks are in a tier below memory\n"
    assert call("kv", "purge").stdout == "4 blocks forgotten\n"
    assert json.loads(call("kv", "ls", "-o", "json").stdout) == {"blocks": [], "of": 0}
