from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from inferplane_operator.reconcile.canary import Counters, Limits, judge
from inferplane_operator.reconcile.values import Judgement

OLD = Counters(requests=100, prefills=100, uncached_tokens=20_000, prefill_s=10.0, output_tokens=10_000, decode_s=200.0)
NEW = Counters(requests=30, prefills=30, uncached_tokens=6_000, prefill_s=3.0, output_tokens=3_000, decode_s=60.0)


def verdict(new: Counters, *, old: Counters = OLD, elapsed_s: float = 60.0) -> Judgement:
    return judge(old, new, revision="r", elapsed_s=elapsed_s).judgement


def test_as_good_as_before_passes() -> None:
    assert verdict(NEW) is Judgement.PASS


def test_a_cold_cache_is_not_slowness() -> None:
    cold = replace(NEW, uncached_tokens=6_000 * 8, prefill_s=3.0 * 8)

    assert verdict(cold) is Judgement.PASS


def test_slower_at_equal_uncached_tokens_fails() -> None:
    assert verdict(replace(NEW, prefill_s=6.0)) is Judgement.FAIL


def test_shorter_prompts_are_not_expected_to_take_less_than_their_fixed_part() -> None:
    warm = replace(NEW, uncached_tokens=600, prefill_s=3.0)

    assert verdict(warm) is Judgement.PASS


def test_slower_output_tokens_fail() -> None:
    assert verdict(replace(NEW, decode_s=120.0)) is Judgement.FAIL


def test_slowness_that_no_objective_notices_passes() -> None:
    short = replace(OLD, decode_s=15.7)
    twice = replace(NEW, prefill_s=6.0, decode_s=9.9)
    lenient = Limits(least_slower_prompt_s=0.1, least_slower_token_s=0.0025)

    assert judge(short, twice, revision="r", elapsed_s=60.0, limits=lenient).judgement is Judgement.PASS
    for strict in (replace(lenient, least_slower_prompt_s=0.09), replace(lenient, least_slower_token_s=0.0015)):
        assert judge(short, twice, revision="r", elapsed_s=60.0, limits=strict).judgement is Judgement.FAIL


def test_times_are_told_in_a_unit_that_reads_well() -> None:
    slow = judge(OLD, replace(NEW, decode_s=120.0), revision="r", elapsed_s=60.0)

    assert slow.message == "an output token takes 40 ms, 20 ms before"


def test_errors_fail_at_once() -> None:
    assert verdict(replace(NEW, errors=6), elapsed_s=0.0) is Judgement.FAIL


def test_errors_that_were_there_before_are_no_fault_of_the_new() -> None:
    assert verdict(replace(NEW, errors=6), old=replace(OLD, errors=20)) is Judgement.PASS


def test_a_wrong_answer_to_the_canary_fails_at_once() -> None:
    assert verdict(Counters(canary_failures=1), elapsed_s=0.0) is Judgement.FAIL


def test_with_little_traffic_the_canarys_answer_decides_after_a_while() -> None:
    quiet = Counters(requests=2, prefills=2, uncached_tokens=10, prefill_s=9.0)

    assert verdict(quiet, elapsed_s=Limits().quiet_after_s - 1) is Judgement.WAIT
    assert verdict(quiet, elapsed_s=Limits().quiet_after_s) is Judgement.PASS


def test_nothing_is_decided_in_the_first_seconds() -> None:
    assert verdict(NEW, elapsed_s=1.0) is Judgement.WAIT


COUNTERS = st.builds(
    Counters,
    requests=st.integers(0, 100),
    errors=st.integers(0, 5),
    prefills=st.integers(0, 100),
    uncached_tokens=st.floats(0, 1e6),
    prefill_s=st.floats(0, 100),
    output_tokens=st.floats(0, 1e5),
    decode_s=st.floats(0, 1000),
    canary_failures=st.integers(0, 1),
)


@settings(deadline=None)
@given(COUNTERS, COUNTERS, st.floats(0, 100), st.floats(0, 100))
def test_time_alone_takes_no_decision_back(old: Counters, new: Counters, first: float, more: float) -> None:
    before = judge(old, new, revision="r", elapsed_s=first).judgement
    after = judge(old, new, revision="r", elapsed_s=first + more).judgement

    assert before is Judgement.WAIT or after is before
