"""What a tenant may take, and what it sees of others: in a store that runs, with the names that engines use."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferplane_engine.identity import engine_salt
from inferplane_kv_connector.envelope import HEADER_BYTES
from inferplane_kv_connector.keys import KeySpace, extend, root
from inferplane_kvstore.config import tenant_owner
from inferplane_kvstore.space import PAGE
from inferplane_kvstore.testing import key_of, save, served, small_config

SPACE = KeySpace("vllm 0.32", "m", "r", "float32", "auto", "layers=2", 16)
QUOTAS = {"acme": 300 * PAGE + 17, "globex": 500 * PAGE}
"""In bytes, one of them no multiple of a block."""
SIZES = (PAGE - HEADER_BYTES, 2 * PAGE - HEADER_BYTES)
AT_ONCE = 50


def names(tenant: str, tokens: list[int]) -> list[bytes]:
    return extend(root(SPACE, salt=engine_salt(tenant, "") or ""), tokens, SPACE.block_size)


@pytest.mark.slow
def test_a_flood_fills_each_quota_to_a_percent_and_never_beyond(tmp_path: Path) -> None:
    quotas = {tenant_owner(tenant): size for tenant, size in QUOTAS.items()}
    seen: list[dict[str, int]] = []
    with served(replace(small_config(tmp_path, dram=8 << 20), quotas=quotas)) as (store, client):
        for start in range(0, 1500, AT_ONCE):
            for tenant in (*QUOTAS, "nobody-in-particular"):
                keys = [key_of(number, kind=tenant) for number in range(start, start + AT_ONCE)]
                save(client, keys, SIZES[start % 3 == 0], owner=tenant_owner(tenant))
            said = store.inspector.stat({})["owners"]
            seen.append({tenant: said.get(tenant_owner(tenant).hex(), 0) for tenant in QUOTAS})

    assert all(taken[tenant] <= limit for taken in seen for tenant, limit in QUOTAS.items())
    assert all(seen[-1][tenant] >= 0.99 * limit for tenant, limit in QUOTAS.items())


@given(tokens=st.lists(st.integers(0, 1000), min_size=16, max_size=160), tenants=st.sets(st.text(), min_size=2))
def test_tenants_with_equal_prompts_have_no_block_in_common(tokens: list[int], tenants: set[str]) -> None:
    every = [name for tenant in tenants for name in names(tenant, tokens)]

    assert len(set(every)) == len(every)


@pytest.mark.slow
def test_a_tenant_does_not_find_what_another_stored_of_the_same_prompt(tmp_path: Path) -> None:
    prompt = list(range(160))
    with served(small_config(tmp_path)) as (_, client):
        save(client, names("acme", prompt), PAGE, owner=tenant_owner("acme"))

        assert client.find(names("acme", prompt)) == ["dram"] * 10
        assert client.find(names("globex", prompt)) == []
        assert client.find(extend(root(SPACE), prompt, SPACE.block_size)) == []
