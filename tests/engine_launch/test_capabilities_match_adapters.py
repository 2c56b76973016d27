"""The capability table says what the design says of each engine."""

import pytest

from inferplane_api.v1alpha1.engine import EngineType
from inferplane_engine.capabilities import CAPABILITIES, Capability, capabilities_of


@pytest.mark.parametrize("engine", EngineType)
def test_every_engine_hands_over_in_exactly_one_order(engine: EngineType) -> None:
    orders = {Capability.HANDOFF_SEQUENTIAL, Capability.HANDOFF_CONCURRENT}

    assert len(orders & capabilities_of(engine)) == 1


def test_only_sglang_decode_engines_cannot_prefill() -> None:
    able = {engine for engine in EngineType if Capability.DECODE_CAN_PREFILL in CAPABILITIES[engine]}

    assert able == {EngineType.VLLM, EngineType.SIM}


def test_several_choices_are_not_handed_over_until_proven() -> None:
    assert not any(Capability.HANDOFF_MULTIPLE_CHOICES in flags for flags in CAPABILITIES.values())


def test_words_on_the_wire_are_lower_case_with_dashes() -> None:
    assert [word for word in Capability if not word.replace("-", "").isalpha() or word != word.lower()] == []
