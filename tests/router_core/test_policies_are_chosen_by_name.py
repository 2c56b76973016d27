import pytest

from inferplane_api.catalogue import RoutingMode, WorkerRole
from inferplane_router.core.plugins import POLICIES, make_policy
from inferplane_router.core.testing import FakeWorker, ask, make_core, prompt, service
from inferplane_router.core.values import Queued, Routed


def homes(policy: str, *, requests: int = 8, mode: RoutingMode = RoutingMode.AUTO) -> list[str]:
    workers = [FakeWorker(f"d{number}") for number in range(4)]
    workers += [FakeWorker(f"p{number}", WorkerRole.PREFILL) for number in range(2)]
    core = make_core(*workers, services=[service(policy=policy, mode=mode)])
    answers = [core.pick(ask(core, f"r{number}", prompt(number, 200)), 0.0) for number in range(requests)]
    routed = [answer for answer in answers if isinstance(answer, Routed)]
    return [" ".join(target.worker_id for target in (answer.decode, *answer.prefill[:1])) for answer in routed]


def test_an_unknown_policy_is_named_with_the_known_ones() -> None:
    with pytest.raises(
        ValueError, match="policy 'magic' is not known; use one of kv-aware, least-request, round-robin"
    ):
        make_policy("magic")


def test_round_robin_takes_turns_on_both_sides() -> None:
    assert homes("round-robin") == [f"d{number % 4} p{number % 2}" for number in range(8)]


def test_round_robin_takes_turns_without_a_hand_off() -> None:
    assert homes("round-robin", mode=RoutingMode.AGGREGATED) == [f"d{number % 4}" for number in range(8)]


def test_least_request_balances() -> None:
    chosen = homes("least-request", mode=RoutingMode.AGGREGATED)

    assert sorted(chosen) == sorted([f"d{number}" for number in range(4)] * 2)


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_no_policy_fills_a_worker_beyond_what_it_takes(policy: str) -> None:
    workers = [FakeWorker("d1", max_num_seqs=2), FakeWorker("d2", max_num_seqs=1)]
    core = make_core(*workers, services=[service(policy=policy)])

    answers = [core.pick(ask(core, f"r{number}", prompt(number, 200)), 0.0) for number in range(4)]

    assert [type(answer) for answer in answers] == [Routed, Routed, Routed, Queued]
    taken = sorted(answer.decode.worker_id for answer in answers if isinstance(answer, Routed))
    assert taken == ["d1", "d1", "d2"]


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_a_prompt_that_cannot_be_tokenised_is_placed_by_load(policy: str) -> None:
    core = make_core(FakeWorker("d1"), FakeWorker("d2"), services=[service(policy=policy)])

    answers = [core.pick(ask(core, f"r{number}", None), 0.0) for number in range(10)]

    taken = [answer.decode.worker_id for answer in answers if isinstance(answer, Routed)]
    assert min(taken.count("d1"), taken.count("d2")) >= 2


def test_more_than_64_workers_are_told_apart() -> None:
    workers = [FakeWorker(f"d{number}") for number in range(150)]
    core = make_core(*workers)
    tokens = prompt(1, 800)
    core.on_worker_message("d140", workers[140].delta(stored=workers[140].hashes(tokens)), 0.0)

    answer = core.pick(ask(core, "r", tokens), 0.0)

    assert isinstance(answer, Routed)
    assert answer.decode.worker_id == "d140"
    assert answer.decode_cached_tokens == 49 * 16
