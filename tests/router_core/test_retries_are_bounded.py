"""Requests that are placed again are few beside new ones, however many workers fail."""

from hypothesis import given
from hypothesis import strategies as st

from inferplane_router.core.retry_budget import RetryBudget
from inferplane_router.core.testing import FakeWorker, ask, make_core
from inferplane_router.core.values import RefusalReason, Refused, Routed


@given(st.lists(st.sampled_from(["new", "again"]), max_size=600), st.integers(0, 300))
def test_retries_are_a_fifth_of_the_requests_and_one_bucket(what: list[str], in_force: int) -> None:
    budget, news, retries = RetryBudget(), 0, 0
    for each in what:
        if each == "new":
            budget.earn(in_force)
            news += 1
        else:
            retries += budget.spend()

    assert retries <= 0.2 * news + max(64, in_force)


def test_what_a_dying_worker_had_goes_elsewhere_at_once() -> None:
    budget = RetryBudget()
    for _ in range(2000):
        budget.earn(400)

    assert all(budget.spend() for _ in range(400))


def test_a_fleet_that_fails_everything_is_not_asked_again_and_again() -> None:
    core = make_core(FakeWorker("d1"), FakeWorker("d2"))
    routed = [core.pick(ask(core, f"r{number}", None), 0.0) for number in range(200)]
    answers = [core.retry(each.request_id, each.decode.worker_id, 0.1) for each in routed if isinstance(each, Routed)]
    refused = [answer for answer in answers if isinstance(answer, Refused)]

    assert len(answers) == 200
    assert 0 < len(refused) < 200
    assert {answer.reason for answer in refused} == {RefusalReason.NO_WORKERS}
    assert all(answer.retry_after_s > 0 for answer in refused)
    assert core.statistics().services[0].in_flight == 200 - len(refused)
