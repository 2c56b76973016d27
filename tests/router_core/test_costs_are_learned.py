import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from inferplane_api.catalogue import RoutingMode, WorkerRole
from inferplane_router.core.cost import step_features
from inferplane_router.core.learning import LinearModel
from inferplane_router.core.testing import FakeWorker, ask, make_core, prompt, service
from inferplane_router.core.values import Routed

PRIOR = (0.01, 5e-5, 2e-10)
STEP_PRIOR = (0.01, 1e-4, 2e-8)


def features(uncached: float) -> np.ndarray:
    return np.array((1.0, uncached, uncached * uncached / 2))


def test_a_model_finds_the_true_speeds() -> None:
    model = LinearModel(PRIOR)
    rng = np.random.default_rng(1)
    for _ in range(300):
        given_features = features(float(rng.integers(10, 8000)))
        model.observe(given_features, float(given_features @ (0.05, 2e-4, 1e-9)))

    for uncached in (100, 1000, 6000):
        expected = float(features(uncached) @ (0.05, 2e-4, 1e-9))
        assert abs(model.predict(features(uncached)) / expected - 1) < 0.05
    assert model.spread < 0.05


def test_an_outlier_after_a_long_quiet_time_moves_little() -> None:
    model = LinearModel(PRIOR)
    for _ in range(2000):
        model.observe(features(1000), float(features(1000) @ PRIOR))
    before = model.predict(features(4000))
    model.observe(features(1000), 100.0)

    assert model.predict(features(4000)) < 3 * before


@given(st.lists(st.tuples(st.floats(0, 1e6), st.floats(0, 1e9) | st.just(float("nan"))), max_size=50))
@settings(deadline=None, derandomize=True)
def test_coefficients_stay_within_reach_of_the_prior(observations: list[tuple[float, float]]) -> None:
    model = LinearModel(PRIOR)
    for uncached, observed in observations:
        model.observe(features(uncached), observed)

    ratios = model.coefficients / np.array(PRIOR)
    assert (ratios >= 1 / 50 - 1e-9).all()
    assert (ratios <= 50 + 1e-9).all()


@given(st.lists(st.tuples(st.integers(1, 64), st.floats(2000, 12000), st.floats(1e-3, 1.0)), max_size=60))
@settings(deadline=None, derandomize=True)
def test_an_observation_never_takes_a_model_further_away_from_itself(seen: list[tuple[int, float, float]]) -> None:
    model = LinearModel(STEP_PRIOR)
    for requests, each, observed in seen:
        batch = step_features(requests, requests * each)
        before = abs(model.predict(batch) - observed)
        model.observe(batch, observed)

        assert abs(model.predict(batch) - observed) <= before * (1 + 1e-9) + 1e-12


def test_coefficients_at_their_bounds_do_not_drive_the_others_away() -> None:
    """Steps take the same whatever the batch, and its requests all have the same length: nothing tells terms apart."""
    model = LinearModel(STEP_PRIOR)
    rng = np.random.default_rng(2)
    for number in range(3000):
        requests = float(rng.integers(15, 32))
        slow_s = 0.025 if number % 400 < 200 else 0.02
        batch = step_features(requests, requests * rng.normal(7500.0, 300.0))
        model.observe(batch, slow_s * rng.normal(1.0, 0.08))

    assert 0.018 < model.predict(step_features(25.0, 25 * 7500.0)) < 0.024


def test_a_worker_slower_than_its_pool_gets_less() -> None:
    workers = [FakeWorker("slow"), FakeWorker("quick")]
    core = make_core(*workers, services=[service(ttft_s=0.05)])
    now = 0.0
    for number in range(120):
        name = "slow" if number % 2 else "quick"
        tokens = prompt(number, 400)
        core.pick(ask(core, f"w{number}", tokens, only=frozenset({name})), now)
        fake = workers[0] if name == "slow" else workers[1]
        took = 0.2 if name == "slow" else 0.03
        report = fake.report(f"w{number}", prompt_tokens=400, cached_tokens=0, prefill_s=took)
        core.on_worker_message(name, report, now)
        now += 1.0
        core.poll(now)

    homes = [core.pick(ask(core, f"r{number}", prompt(1000 + number, 400)), now) for number in range(3)]

    assert [answer.decode.worker_id for answer in homes if isinstance(answer, Routed)] == ["quick"] * 3


def test_predicted_times_follow_what_is_reported() -> None:
    worker = FakeWorker("d1")
    core = make_core(worker)
    for number in range(100):
        core.pick(ask(core, f"r{number}", prompt(number, 1000)), float(number))
        report = worker.report(f"r{number}", prompt_tokens=1000, cached_tokens=0, prefill_s=0.5, tpot_s=0.04)
        core.on_worker_message("d1", report, float(number))

    answer = core.pick(ask(core, "last", prompt(5000, 1000)), 101.0)

    assert isinstance(answer, Routed)
    assert 0.4 < answer.ttft_s < 0.65
    assert 0.03 < answer.tpot_s < 0.05


def test_auto_hands_off_when_that_is_faster_and_not_when_the_link_is_slow() -> None:
    workers = [FakeWorker("p1", WorkerRole.PREFILL), FakeWorker("d1")]
    core = make_core(*workers, services=[service(mode=RoutingMode.AUTO)])
    for number in range(20):  # the decode worker is busy with many answers
        busy = ask(core, f"busy{number}", None, only=frozenset({"d1"}))
        core.pick(busy, 0.0)

    answer = core.pick(ask(core, "r", prompt(1, 4000)), 0.0)

    assert isinstance(answer, Routed)
    assert [target.worker_id for target in answer.prefill] == ["p1"]


def test_a_short_prompt_with_everything_cached_is_not_handed_off() -> None:
    workers = [FakeWorker("p1", WorkerRole.PREFILL), FakeWorker("d1")]
    core = make_core(*workers, services=[service(mode=RoutingMode.AUTO)])
    tokens = prompt(1, 4000)
    core.on_worker_message("d1", workers[1].delta(stored=workers[1].hashes(tokens)), 0.0)

    answer = core.pick(ask(core, "r", tokens), 0.0)

    assert isinstance(answer, Routed)
    assert answer.prefill == ()


def test_a_prefill_pool_that_is_gone_loses_no_request() -> None:
    core = make_core(FakeWorker("d1"), services=[service(mode=RoutingMode.DISAGGREGATED)])

    answer = core.pick(ask(core, "r", prompt(1, 400)), 0.0)

    assert isinstance(answer, Routed)
    assert answer.prefill == ()


def test_fall_backs_are_named_best_first() -> None:
    workers = [FakeWorker(f"p{number}", WorkerRole.PREFILL) for number in range(5)] + [FakeWorker("d1")]
    core = make_core(*workers, services=[service(mode=RoutingMode.DISAGGREGATED)])
    tokens = prompt(1, 4000)
    for number in range(5):
        part = workers[number].hashes(tokens)[: 50 * (number + 1)]
        core.on_worker_message(f"p{number}", workers[number].delta(stored=part), 0.0)

    answer = core.pick(ask(core, "r", tokens), 0.0)

    assert isinstance(answer, Routed)
    assert [target.worker_id for target in answer.prefill] == ["p4", "p3", "p2"]
