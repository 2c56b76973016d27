"""A status that says "unverified" and the page that says what was verified speak of the same things."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferplane_api.v1alpha1.engine import Device, EngineType
from inferplane_api.v1alpha1.kv_store import TierMedium
from inferplane_engine.verification import KNOWN, Degree, Unverified, Use, unverified

PAGE = Path(__file__).parents[2] / "docs" / "verified.md"
WORDS = {Degree.CONTRACT_ONLY: "contract only", Degree.NEVER_RUN: "never run"}
USES = st.builds(
    Use,
    engine=st.sampled_from(EngineType),
    device=st.sampled_from(Device),
    devices=st.integers(1, 8),
    ranks=st.integers(1, 4),
    nodes=st.integers(1, 2),
    media=st.frozensets(st.sampled_from(TierMedium)),
)


@pytest.mark.parametrize("what", KNOWN, ids=lambda what: what.what)
def test_the_page_has_a_line_for_it(what: Unverified) -> None:
    rows = re.findall(r"^\| ([^|]+?) \| ([^|]+?) \|", PAGE.read_text(), flags=re.MULTILINE)

    assert [degree for row, degree in rows if row == what.what or row.startswith(f"{what.what}:")]
    assert {degree for row, degree in rows if row == what.what or row.startswith(f"{what.what}:")} == {
        WORDS[what.degree]
    }


@given(USES)
def test_nothing_else_is_said(use: Use) -> None:
    assert set(unverified(use)) <= set(KNOWN)


def test_everything_is_said_of_a_worker_that_uses_everything() -> None:
    use = Use(
        engine=EngineType.SGLANG,
        device=Device.CUDA,
        hands_over=True,
        devices=16,
        ranks=2,
        nodes=2,
        adapters=True,
        expert=True,
        quantised_kv=True,
        speculation=True,
        slices=True,
        claims=True,
        media=frozenset(TierMedium),
    )

    other_devices = {what for what in KNOWN if what.what in {"ROCm devices", "XPU devices", "Ascend devices"}}
    assert set(unverified(use)) == set(KNOWN) - other_devices
