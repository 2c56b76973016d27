from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferplane_engine.identity import engine_salt
from inferplane_kv_connector.envelope import HEADER_BYTES, Header, Label, check, pack, seal, unpack
from inferplane_kv_connector.keys import NOBODY, KeySpace, extend, key_mark, owner_of, root, shard
from inferplane_kvstore.config import tenant_owner

SPACE = KeySpace("vllm 0.32", "m", "r", "float32", "auto", "layers=2", 4)
LABEL = Label(bytes(range(32)), b"tenant-a", 100)
SECRET = b"sixteen bytes or more"


def test_every_field_of_the_space_changes_every_name() -> None:
    texts = [each.name for each in fields(SPACE) if each.name != "block_size"]
    changed = [replace(SPACE, block_size=5), *(replace(SPACE, **{name: "other"}) for name in texts)]  # type: ignore[arg-type]  # all are texts
    roots = {root(SPACE), *(root(space) for space in changed), root(SPACE, adapter="a"), root(SPACE, salt="a")}

    assert len(roots) == len(changed) + 3


def test_blocks_sealed_with_another_key_have_other_names() -> None:
    spaces = [replace(SPACE, sealed_by=key_mark(secret)) for secret in (SECRET, b"another key of 16")]

    assert len({root(space) for space in spaces}) == 2
    assert SECRET.hex() not in spaces[0].sealed_by


@given(left=st.tuples(st.text(), st.text()), right=st.tuples(st.text(), st.text()))
def test_adapter_and_salt_do_not_run_into_each_other(left: tuple[str, str], right: tuple[str, str]) -> None:
    names = [root(SPACE, adapter=adapter, salt=salt) for adapter, salt in (left, right)]

    assert (names[0] == names[1]) == (left == right)


@given(tokens=st.lists(st.integers(0, 2**32 - 1), max_size=40), cut=st.integers(0, 9))
def test_a_chain_goes_on_where_it_was_left(tokens: list[int], cut: int) -> None:
    whole = extend(root(SPACE), tokens, 4)
    begun = whole[:cut]

    assert begun + extend(begun[-1] if begun else root(SPACE), tokens[len(begun) * 4 :], 4) == whole
    assert len(whole) == len(tokens) // 4


@given(tokens=st.lists(st.integers(0, 99), min_size=12, max_size=12), at=st.integers(0, 11))
def test_another_token_changes_its_block_and_all_after(tokens: list[int], at: int) -> None:
    other = [*tokens[:at], 100, *tokens[at + 1 :]]
    same = [a == b for a, b in zip(extend(b"r", tokens, 4), extend(b"r", other, 4), strict=True)]

    assert same == [block < at // 4 for block in range(3)]


def test_parallel_workers_have_names_of_their_own() -> None:
    key = LABEL.key

    assert len({shard(key, 0, 1), shard(key, 0, 2), shard(key, 1, 2), shard(key, 0, 4)}) == 4
    assert shard(key, 0, 1) == key


def test_a_salt_says_whose_block_it_is_whatever_the_client_adds() -> None:
    owner = tenant_owner("acme")

    assert owner != NOBODY
    assert owner_of(engine_salt("acme", "")) == owner_of(engine_salt("acme", "mine")) == owner
    assert owner_of(engine_salt("other", "")) not in (owner, NOBODY)
    assert owner_of(engine_salt("", "mine")) == NOBODY


@pytest.mark.parametrize("salt", [None, "", "mine", "ip-", "ip-zz", "ip-0011223344556677", "ip-001122334455667x-1"])
def test_other_salts_are_nobodys(salt: str | None) -> None:
    assert owner_of(salt) == NOBODY


@given(payload=st.binary(min_size=1, max_size=64), bit=st.integers(0, 511))
def test_no_bit_can_flip_unseen(payload: bytes, bit: int) -> None:
    label = replace(LABEL, size=len(payload))
    tag = seal(label, payload, SECRET)
    bad = bytearray(payload)
    bad[bit // 8 % len(payload)] ^= 1 << bit % 8

    assert check(label, tag, payload, SECRET)
    assert not check(label, tag, bad, SECRET)
    assert not check(replace(label, key=bytes(32)), tag, payload, SECRET)
    assert not check(label, tag, payload, b"another secret")


def test_a_header_survives_and_a_damaged_one_is_none() -> None:
    header = Header(LABEL, bytes(32))
    raw = pack(header)

    assert (len(raw), unpack(raw)) == (HEADER_BYTES, header)
    assert unpack(raw[:-1]) is None
    assert unpack(bytes(HEADER_BYTES)) is None
    for at in range(92):  # the rest is padding
        assert unpack(bytes([*raw[:at], raw[at] ^ 1, *raw[at + 1 :]])) is None
