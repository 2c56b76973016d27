from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inferplane_workers.agent.handoff import (
    TRANSITIONS,
    CancelDecode,
    CancelPrefill,
    Confirm,
    Effect,
    Event,
    Fail,
    Handoff,
    SendDecode,
    SendPrefill,
    State,
)

PARAMS = {"do_remote_prefill": True, "remote_block_ids": [[1, 2]]}


def started(*candidates: str, local_prefill: bool = True) -> Handoff:
    handoff = Handoff(candidates, deadline_s=10.0, local_prefill=local_prefill)
    handoff.on(Event.BEGIN)
    return handoff


def test_the_parameters_of_the_answer_go_to_the_decode_engine_verbatim() -> None:
    handoff = started("p:1")

    assert handoff.on(Event.PREFILL_ANSWERED, now=1.0, transfer=PARAMS) == (SendDecode(PARAMS),)


def test_a_failed_candidate_gives_way_to_the_next_and_then_to_local_prefill() -> None:
    handoff = started("p:1", "p:2")

    assert handoff.on(Event.PREFILL_FAILED) == (SendPrefill("p:2"),)
    assert handoff.on(Event.PREFILL_FAILED) == (SendDecode(None),)
    assert handoff.failed == ["p:1", "p:2"]


def test_a_refused_request_is_judged_by_the_own_engine_without_trying_others() -> None:
    handoff = started("p:1", "p:2")

    assert handoff.on(Event.PREFILL_REJECTED) == (SendDecode(None),)


def test_parameters_older_than_the_deadline_are_never_used() -> None:
    handoff = started("p:1")

    effects = handoff.on(Event.PREFILL_ANSWERED, now=11.0, transfer=PARAMS, answered_at=0.5)

    assert effects == (Confirm("p:1", pulled=False), SendDecode(None))


def test_a_transfer_that_the_engine_could_not_do_is_tried_once_without() -> None:
    handoff = started("p:1")
    handoff.on(Event.PREFILL_ANSWERED, now=1.0, transfer=PARAMS)

    assert handoff.on(Event.ENGINE_FAILED) == (Confirm("p:1", pulled=False), SendDecode(None))
    assert handoff.on(Event.ENGINE_FAILED) == (Fail(),)


def test_without_local_prefill_the_last_failure_is_the_end() -> None:
    handoff = started("p:1", local_prefill=False)

    assert handoff.on(Event.PREFILL_FAILED) == (Fail(),)


def test_a_worker_that_cannot_prefill_needs_a_candidate() -> None:
    assert Handoff((), deadline_s=1.0, local_prefill=False).on(Event.BEGIN) == (Fail(),)


def test_a_client_that_leaves_while_the_prefill_runs_cancels_it() -> None:
    assert started("p:1").on(Event.CLIENT_GONE) == (CancelPrefill(),)


def test_a_client_that_leaves_before_the_first_token_abandons_the_blocks() -> None:
    handoff = started("p:1")
    handoff.on(Event.PREFILL_ANSWERED, now=1.0, transfer=PARAMS)

    assert handoff.on(Event.CLIENT_GONE) == (CancelDecode(), Confirm("p:1", pulled=False))


@pytest.mark.parametrize("state", list(State))
def test_every_state_but_the_last_knows_what_to_do_when_the_client_leaves(state: State) -> None:
    assert ((state, Event.CLIENT_GONE) in TRANSITIONS) == (state is not State.DONE)


@settings(deadline=None)
@given(
    candidates=st.integers(min_value=0, max_value=4),
    local=st.booleans(),
    events=st.lists(st.tuples(st.sampled_from(list(Event)), st.booleans(), st.floats(0, 40)), max_size=30),
)
def test_no_order_of_events_breaks_the_invariants(
    candidates: int, *, local: bool, events: list[tuple[Event, bool, float]]
) -> None:
    names = tuple(f"p:{i}" for i in range(candidates))
    handoff = Handoff(names, deadline_s=10.0, local_prefill=local)
    effects: list[Effect] = list(handoff.on(Event.BEGIN))
    answers = 0
    for number, (event, offered, age) in enumerate(events):
        before = handoff.state
        transfer: dict[str, Any] | None = {"n": number} if offered else None
        effects += handoff.on(event, now=100.0, transfer=transfer, answered_at=100.0 - age)
        answers += before is State.PREFILLING and event is Event.PREFILL_ANSWERED
        if handoff.state is State.DONE:
            assert handoff.on(Event.ENDED) == ()

    sent = [effect.address for effect in effects if isinstance(effect, SendPrefill)]
    decodes = [effect for effect in effects if isinstance(effect, SendDecode)]
    confirms = [effect for effect in effects if isinstance(effect, Confirm)]

    assert sent == list(names[: len(sent)])
    assert len([d for d in decodes if d.transfer is not None]) <= answers
    assert len(confirms) <= answers
    assert len([d for d in decodes if d.transfer is None]) <= 1
    assert local or all(d.transfer is not None for d in decodes)
    if handoff.state is State.DONE:
        assert len(confirms) == answers
