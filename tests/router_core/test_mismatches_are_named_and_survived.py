import pytest

from inferplane_api.proto import worker_pb2
from inferplane_engine.identity import Adapter, engine_salt
from inferplane_router.core.testing import NO_HASHES, FakeWorker, ask, connect, make_core, prompt
from inferplane_router.core.values import Hashes, KvMode, Mismatch, Routed, WorkerView

ADAPTER = Adapter("style", "v1")
WRONG = prompt(999, 3000)


class Conversation:
    """Sends requests one after another and lets the engine say what it likes about each."""

    def __init__(self, worker: FakeWorker) -> None:
        self.worker = worker
        self.core = make_core(worker)
        self.now = 0.0
        self.number = 0

    def send(
        self,
        *,
        stored: Hashes | None = None,
        observed: int | None = None,
        reported_prompt: int | None = None,
        tokens_of: int | None = None,
        salt: str | None = None,
        name: str = "tiny",
        templated: bool = False,
        lasts_s: float = 3.0,
    ) -> Routed:
        """Serve one request; by default its blocks are announced and the prediction comes true."""
        self.number += 1
        request_id = f"r{self.number}"
        tokens = prompt(self.number if tokens_of is None else tokens_of, 400)
        question = ask(self.core, request_id, tokens, salt=salt, name=name, templated=templated)
        answer = self.core.pick(question, self.now)
        assert isinstance(answer, Routed)
        if stored is None:
            stored = self.worker.hashes(tokens, salt=salt, adapter=question.model.adapter)
        if stored.shape[0]:
            self.core.on_worker_message("d1", self.worker.delta(stored=stored), self.now + 0.1)
        report = self.worker.report(
            request_id,
            prompt_tokens=400 if reported_prompt is None else reported_prompt,
            cached_tokens=answer.prefill_cached_tokens if observed is None else observed,
        )
        self.core.on_worker_message("d1", report, self.now + 0.2)
        self.now += lasts_s
        self.core.poll(self.now)
        return answer

    def view(self) -> WorkerView:
        return self.core.statistics().workers[0]


def test_predictions_that_come_true_keep_a_worker_exact() -> None:
    talk = Conversation(FakeWorker("d1"))
    for number in range(10):
        talk.send(tokens_of=number // 2)

    view = talk.view()
    assert (view.kv_mode, view.mismatch) == (KvMode.EXACT, Mismatch.NONE)
    assert view.predictions == view.exact_predictions == 10
    assert view.predicted_tokens == view.observed_tokens == 5 * 384


@pytest.mark.parametrize(
    ("cause", "arguments"),
    [
        (Mismatch.EVENTS_OFF, {"stored": NO_HASHES, "observed": 0}),
        (Mismatch.HASH_SEED, {"stored": FakeWorker("x").hashes(WRONG), "observed": 0}),
        (Mismatch.TOKENIZER, {"reported_prompt": 404}),
        (Mismatch.TEMPLATE, {"reported_prompt": 404, "templated": True}),
        (Mismatch.BLOCK_SIZE, {"observed": 24}),
        (Mismatch.LOST_EVENTS, {"observed": 320}),
    ],
    ids=str,
)
def test_a_repeated_mismatch_is_named(cause: Mismatch, arguments: dict[str, object]) -> None:
    talk = Conversation(FakeWorker("d1"))
    for _ in range(6):
        talk.send(**arguments)  # type: ignore[arg-type]  # one table for differently typed arguments

    view = talk.view()
    assert (view.kv_mode, view.mismatch) == (KvMode.APPROXIMATE, cause)
    assert view.mismatch_detail
    assert talk.core.statistics().mismatches[cause] == 1


def test_what_fails_only_with_a_salt_is_the_salt() -> None:
    talk = Conversation(FakeWorker("d1"))
    salt = engine_salt("tenant", "")
    for _ in range(4):
        talk.send()
        talk.send(salt=salt, stored=NO_HASHES, observed=0)

    assert talk.view().mismatch is Mismatch.SALT


def test_what_fails_only_with_an_adapter_is_the_adapter() -> None:
    talk = Conversation(FakeWorker("d1", adapters=(ADAPTER,)))
    for _ in range(4):
        talk.send()
        talk.send(name="style", stored=NO_HASHES, observed=0)

    assert talk.view().mismatch is Mismatch.ADAPTER


@pytest.mark.parametrize(("kv_blocks", "mode"), [(60, KvMode.EXACT), (6000, KvMode.APPROXIMATE)])
def test_blocks_that_a_small_cache_has_let_go_of_convict_nobody(kv_blocks: int, mode: KvMode) -> None:
    """Every request's blocks are gone before anybody looks; a cache of ten seconds' work would have them."""
    talk = Conversation(FakeWorker("d1", kv_blocks=kv_blocks))
    talk.send()
    for _ in range(40):
        talk.send(stored=NO_HASHES, observed=0, lasts_s=0.25)

    assert talk.view().kv_mode is mode


def test_one_surprise_convicts_nobody() -> None:
    talk = Conversation(FakeWorker("d1"))
    talk.send(observed=320)
    for _ in range(5):
        talk.send()
    talk.send(observed=320)

    assert talk.view().kv_mode is KvMode.EXACT


def test_approximate_mode_routes_by_our_own_decisions_and_ends_when_events_are_right_again() -> None:
    talk = Conversation(FakeWorker("d1"))
    for _ in range(3):
        talk.send(stored=NO_HASHES, observed=0)
    assert talk.view().kv_mode is KvMode.APPROXIMATE

    talk.send(tokens_of=50, stored=NO_HASHES, observed=0)
    again = talk.send(tokens_of=50, stored=NO_HASHES, observed=384)
    for _ in range(6):
        talk.send(observed=0)

    assert again.prefill_cached_tokens == 384
    assert talk.view().kv_mode is KvMode.EXACT


def test_what_the_agent_says_of_its_events_is_believed_at_once() -> None:
    worker = FakeWorker("d1")
    talk = Conversation(worker)
    talk.core.on_worker_message("d1", worker.status(kv_events=worker_pb2.KV_EVENTS_SUSPECT), 0.0)
    assert (talk.view().kv_mode, talk.view().mismatch) == (KvMode.APPROXIMATE, Mismatch.LOST_EVENTS)

    talk.core.on_worker_message("d1", worker.status(kv_events=worker_pb2.KV_EVENTS_OK), 0.0)

    assert talk.view().kv_mode is KvMode.EXACT


def test_events_that_are_not_believed_take_nothing_from_our_own_decisions() -> None:
    worker = FakeWorker("d1")
    talk = Conversation(worker)
    talk.core.on_worker_message("d1", worker.status(kv_events=worker_pb2.KV_EVENTS_SUSPECT), 0.0)
    talk.send(tokens_of=50, observed=0)  # its blocks are announced, but nobody counts on that

    assert talk.send(tokens_of=50, observed=384).prefill_cached_tokens == 384

    worker.sequence += 1  # a message is lost: what the stream said is void, what we sent there is not
    talk.core.on_worker_message("d1", worker.status(kv_events=worker_pb2.KV_EVENTS_SUSPECT), talk.now)

    assert talk.send(tokens_of=50, observed=384).prefill_cached_tokens == 384


def test_a_restarted_engine_is_believed_anew() -> None:
    worker = FakeWorker("d1")
    talk = Conversation(worker)
    for _ in range(4):
        talk.send(stored=NO_HASHES, observed=0)
    assert talk.view().kv_mode is KvMode.APPROXIMATE

    worker.epoch = 2
    connect(talk.core, worker, now=talk.now)

    assert talk.view().kv_mode is KvMode.EXACT


def test_predictions_of_a_worker_without_events_stay_within_its_cache() -> None:
    worker = FakeWorker("d1", kv_blocks=60)
    talk = Conversation(worker)
    talk.core.on_worker_message("d1", worker.status(kv_events=worker_pb2.KV_EVENTS_OFF), 0.0)
    for _ in range(10):
        talk.send(stored=NO_HASHES, observed=0)

    assert talk.core.statistics().predicted_blocks <= 60
