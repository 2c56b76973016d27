import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from inferplane_api.proto import worker_pb2
from inferplane_router.core import score_kernels as kernels
from inferplane_router.core.load import LoadTable
from inferplane_router.core.testing import EPOCH, accepted, finished

OTHER = 99


def prefill_done(request_id: str, *, epoch: int = EPOCH) -> worker_pb2.LoadEntry:
    entry = accepted(request_id, epoch=epoch)
    entry.phase = worker_pb2.LOAD_PHASE_PREFILL_DONE
    return entry


def in_flight(table: LoadTable, slot: int = 0) -> float:
    return float(table.rows[slot, kernels.IN_FLIGHT])


def test_an_own_entry_is_replaced_by_its_report() -> None:
    table = LoadTable(epoch=EPOCH)
    table.expect(0, "a", prompt=100, uncached=60, now=0.0)
    table.report(0, accepted("a", uncached=0), decodes=True)

    assert table.rows[0].tolist() == [60, 1, 1, 100]


def test_another_routers_entry_of_the_same_name_is_another_request() -> None:
    table = LoadTable(epoch=EPOCH)
    table.expect(0, "a", prompt=100, uncached=60, now=0.0)
    table.report(0, accepted("a", epoch=OTHER), decodes=True)

    assert in_flight(table) == 2


def test_an_entry_that_never_arrives_expires_and_a_confirmed_one_does_not() -> None:
    table = LoadTable(epoch=EPOCH, unconfirmed_s=10.0)
    table.expect(0, "lost", prompt=100, uncached=60, now=0.0)
    table.expect(0, "there", prompt=100, uncached=60, now=0.0)
    table.report(0, accepted("there"), decodes=True)
    table.expire(10.0)

    assert table.has(0, "there")
    assert not table.has(0, "lost")


def test_a_prefill_worker_that_has_answered_computes_nothing_more() -> None:
    table = LoadTable(epoch=EPOCH)
    table.expect(0, "a", prompt=100, uncached=60, now=0.0)
    table.report(0, prefill_done("a"), decodes=False)

    assert table.rows[0].tolist() == [0, 0, 0, 0]
    assert table.in_flight(0) == 1


def test_a_snapshot_removes_what_it_does_not_name_but_not_what_is_on_its_way() -> None:
    table = LoadTable(epoch=EPOCH)
    table.report(0, accepted("gone", epoch=OTHER), decodes=True)
    table.report(0, accepted("stays", epoch=OTHER), decodes=True)
    table.expect(0, "coming", prompt=100, uncached=60, now=0.0)
    table.replace(range(1), [accepted("stays", epoch=OTHER)], decodes=True)

    assert in_flight(table) == 2
    assert table.has(0, "coming")


def test_a_lost_stream_forgets_others_and_gives_ours_a_deadline() -> None:
    table = LoadTable(epoch=EPOCH, unconfirmed_s=10.0)
    table.report(0, accepted("theirs", epoch=OTHER), decodes=True)
    table.report(0, accepted("ours"), decodes=True)
    table.unconfirm(0, 5.0)

    assert in_flight(table) == 1
    assert table.next_expiry() == 15.0


def test_what_an_agent_says_late_of_a_request_that_was_released_does_not_put_it_back() -> None:
    table = LoadTable(epoch=EPOCH)
    table.expect(0, "a", prompt=100, uncached=60, now=0.0)
    table.release(0, "a", 1.0)
    for entry in (accepted("a"), prefill_done("a")):
        table.report(0, entry, decodes=True)
    table.replace(range(1), [accepted("a")], decodes=True)

    assert table.in_flight(0) == 0
    assert not np.any(table.rows)


def test_after_the_last_word_of_a_released_request_its_name_stands_for_another() -> None:
    table = LoadTable(epoch=EPOCH)
    table.expect(0, "a", prompt=100, uncached=60, now=0.0)
    table.release(0, "a", 1.0)
    table.report(0, finished("a"), decodes=True)
    table.report(0, accepted("a"), decodes=True)  # placed by another process of this router

    assert table.in_flight(0) == 1


def test_a_request_placed_again_where_it_was_released_counts() -> None:
    table = LoadTable(epoch=EPOCH)
    table.expect(0, "a", prompt=100, uncached=60, now=0.0)
    table.release(0, "a", 1.0)
    table.expect(0, "a", prompt=100, uncached=60, now=1.0)
    table.report(0, accepted("a"), decodes=True)

    assert table.in_flight(0) == 1


def test_a_request_released_after_its_end_was_told_leaves_nothing_to_look_out_for() -> None:
    table = LoadTable(epoch=EPOCH)
    table.expect(0, "a", prompt=100, uncached=60, now=0.0)
    table.report(0, finished("a"), decodes=True)
    table.release(0, "a", 1.0)
    table.report(0, accepted("a"), decodes=True)

    assert table.in_flight(0) == 1


def test_a_fall_back_that_prefills_a_request_released_elsewhere_counts() -> None:
    table = LoadTable(epoch=EPOCH)
    table.expect(0, "a", prompt=100, uncached=60, now=0.0)
    table.release(0, "a", 1.0)
    table.report(1, accepted("a"), decodes=False)

    assert table.in_flight(1) == 1


def test_late_words_are_looked_out_for_as_long_as_an_entry_may_be_unconfirmed() -> None:
    table = LoadTable(epoch=EPOCH, unconfirmed_s=10.0)
    table.expect(0, "a", prompt=100, uncached=60, now=0.0)
    table.release(0, "a", 1.0)
    table.expire(10.9)
    table.report(0, accepted("a"), decodes=True)
    assert table.in_flight(0) == 0

    table.expire(11.0)
    table.report(0, accepted("a"), decodes=True)
    assert table.in_flight(0) == 1


actions = st.lists(
    st.tuples(
        st.sampled_from(("expect", "accept", "prefill", "finish", "release", "drop", "expire")),
        st.integers(0, 2),
        st.sampled_from(("a", "b")),
        st.sampled_from((EPOCH, OTHER)),
    ),
    max_size=40,
)


@given(actions)
@settings(deadline=None, derandomize=True)
def test_nothing_is_left_when_every_request_has_ended(  # noqa: C901  # a table of actions
    steps: list[tuple[str, int, str, int]],
) -> None:
    table = LoadTable(epoch=EPOCH)
    for number, (action, slot, name, epoch) in enumerate(steps):
        match action:
            case "expect":
                table.expect(slot, name, prompt=100, uncached=40, now=float(number))
            case "accept":
                table.report(slot, accepted(name, epoch=epoch), decodes=True)
            case "prefill":
                table.report(slot, prefill_done(name, epoch=epoch), decodes=slot != 1)
            case "finish":
                table.report(slot, finished(name, epoch=epoch), decodes=True)
            case "release":
                table.release(slot, name, float(number))
            case "drop":
                table.drop(slot)
            case _:
                table.expire(float(number))
        assert (table.rows >= 0).all()
    for slot in range(3):
        for name in ("a", "b"):
            for epoch in (EPOCH, OTHER):
                table.report(slot, finished(name, epoch=epoch), decodes=True)

    assert not np.any(table.rows)
