"""What an archive holds of decisions tells tenants apart and names none."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from inferplane.shared_records import shared

KEY = b"k" * 16
NAMES = st.text("abcxyz", min_size=6, max_size=12)


def packed(*records: Any, key: bytes = KEY) -> list[Any]:
    return [json.loads(line) for line in shared([json.dumps(each).encode() for each in records], key)]


@given(st.lists(NAMES, min_size=1, max_size=6))
def test_equal_tenants_stay_equal_and_others_differ(tenants: list[str]) -> None:
    found = packed(*({"requestId": "r", "observed": [{"tenant": each, "status": 200}]} for each in tenants))
    digests = [each["observed"][0]["tenant"] for each in found]

    assert [digests.index(each) for each in digests] == [tenants.index(each) for each in tenants]
    assert not any(name in json.dumps(found) for name in tenants)


def test_another_archive_has_other_digests() -> None:
    record = {"tenant": "acme-bank"}

    assert packed(record) != packed(record, key=b"j" * 16)


def test_nobody_stays_nobody_and_what_is_damaged_is_left_out() -> None:
    lines = [b'{"tenant": "", "service": "chat"}\n', b'{"tenant": "acm\n', b"[1]\n"]

    assert [json.loads(each) for each in shared(lines, KEY)] == [{"tenant": "", "service": "chat"}]
