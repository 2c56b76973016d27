import pytest

from inferplane_api.proto import worker_pb2
from inferplane_router.core.router import RouterCore
from inferplane_router.core.testing import FakeWorker, accepted, ask, catalogue, connect, make_core, prompt, service
from inferplane_router.core.values import Health, Resync, Routed

TOKENS = prompt(1, 1000)


def cached(core: RouterCore, worker_id: str = "d1") -> int:
    """Ask where a prompt would go if it had to go there, and what would be cached."""
    answer = core.pick(ask(core, "probe", TOKENS, only=frozenset({worker_id})), 1.0)
    assert isinstance(answer, Routed)
    core.complete("probe", worker_pb2.OUTCOME_ENGINE_LOST, 1.0)
    return answer.decode_cached_tokens


def test_a_gap_forgets_the_worker_and_asks_for_a_snapshot() -> None:
    worker = FakeWorker("d1")
    core = make_core(worker)
    core.on_worker_message("d1", worker.delta(stored=worker.hashes(TOKENS)), 0.0)
    assert cached(core) == 62 * 16
    worker.heartbeat()

    resync = core.on_worker_message("d1", worker.heartbeat(), 0.1)

    assert isinstance(resync, Resync)
    assert cached(core) == 0
    core.on_worker_message("d1", worker.snapshot(worker.hashes(TOKENS)), 0.2)
    assert cached(core) == 62 * 16


def test_every_rank_is_asked_for_after_a_gap() -> None:
    worker = FakeWorker("d1", dp_size=3)
    core = make_core(worker)
    worker.heartbeat()

    asked = [core.on_worker_message("d1", worker.heartbeat(), 0.1) for _ in range(4)]

    assert [resync.rank for resync in asked if resync] == [0, 1, 2]


def test_a_new_epoch_voids_what_was_said_before() -> None:
    worker = FakeWorker("d1")
    core = make_core(worker)
    core.on_worker_message("d1", worker.delta(stored=worker.hashes(TOKENS)), 0.0)
    worker.epoch, worker.sequence = 2, 0

    resync = core.on_worker_message("d1", worker.identity(), 0.1)

    assert resync is None
    assert cached(core) == 0


@pytest.mark.parametrize(
    "message",
    [
        worker_pb2.WorkerMessage(block_delta=worker_pb2.BlockDelta(plane=worker_pb2.PLANE_DEVICE, stored=b"1234567")),
        worker_pb2.WorkerMessage(block_delta=worker_pb2.BlockDelta(dp_rank=9, plane=worker_pb2.PLANE_DEVICE)),
        worker_pb2.WorkerMessage(identity=worker_pb2.Identity(block_size=0)),
        worker_pb2.WorkerMessage(identity=worker_pb2.Identity(block_size=16, dp_size=1_000_000)),
    ],
    ids=["torn hashes", "no such rank", "no block size", "absurd ranks"],
)
def test_a_message_that_cannot_be_read_asks_for_a_snapshot(message: worker_pb2.WorkerMessage) -> None:
    worker = FakeWorker("d1")
    core = make_core(worker)
    message.sequence, message.epoch = worker.sequence + 1, worker.epoch

    resync = core.on_worker_message("d1", message, 0.1)

    assert resync is not None
    assert "unreadable" in resync.reason
    assert cached(core) == 0


def test_bodies_and_planes_of_a_later_protocol_are_ignored() -> None:
    worker = FakeWorker("d1")
    core = make_core(worker)
    later = worker.delta(stored=worker.hashes(TOKENS), plane=worker_pb2.PLANE_UNSPECIFIED)
    unknown = worker.heartbeat()
    unknown.ClearField("heartbeat")

    assert core.on_worker_message("d1", later, 0.1) is None
    assert core.on_worker_message("d1", unknown, 0.1) is None
    assert cached(core) == 0


def test_unknown_workers_are_ignored() -> None:
    core = make_core(FakeWorker("d1"))
    stranger = FakeWorker("stranger")

    core.worker_connected("stranger", 0.0)
    assert core.on_worker_message("stranger", stranger.identity(), 0.0) is None
    core.worker_lost("stranger", 0.1)


def test_a_worker_whose_stream_is_lost_is_used_only_when_nobody_else_is_left() -> None:
    workers = [FakeWorker("d1"), FakeWorker("d2")]
    core = make_core(*workers)
    core.on_worker_message("d1", workers[0].delta(stored=workers[0].hashes(TOKENS)), 0.0)
    core.worker_lost("d1", 0.0)

    first = core.pick(ask(core, "r1", TOKENS), 0.1)
    core.worker_lost("d2", 0.2)
    second = core.pick(ask(core, "r2", TOKENS), 0.3)

    assert isinstance(first, Routed)
    assert first.decode.worker_id == "d2"
    assert isinstance(second, Routed)


def test_a_worker_silent_for_long_is_given_up_and_comes_back_when_it_speaks() -> None:
    worker = FakeWorker("d1")
    core = make_core(worker)
    core.worker_lost("d1", 0.0)
    core.poll(31.0)
    assert core.statistics().workers[0].health is Health.FAILED

    connect(core, worker, now=40.0)

    assert core.statistics().workers[0].health is Health.READY


def test_a_failed_request_makes_a_worker_suspect_for_a_while() -> None:
    workers = [FakeWorker("d1"), FakeWorker("d2")]
    core = make_core(*workers)
    first = core.pick(ask(core, "r", TOKENS), 0.0)
    assert isinstance(first, Routed)
    core.retry("r", first.decode.worker_id, 0.1)
    assert Health.SUSPECT in {view.health for view in core.statistics().workers}

    core.poll(6.0)

    assert {view.health for view in core.statistics().workers} == {Health.READY}


def test_another_routers_burst_is_seen_before_it_is_stored() -> None:
    workers = [FakeWorker("d1"), FakeWorker("d2")]
    core = make_core(*workers)
    core.on_worker_message("d2", workers[1].delta(expected=workers[1].hashes(TOKENS), expected_by="theirs"), 0.0)

    assert cached(core, "d2") == 62 * 16
    core.poll(6.0)
    assert cached(core, "d2") == 0


def test_a_block_that_was_predicted_and_evicted_is_not_cached() -> None:
    worker = FakeWorker("d1")
    core = make_core(worker)
    core.pick(ask(core, "r1", TOKENS), 0.0)
    hashes = worker.hashes(TOKENS)
    core.on_worker_message("d1", worker.delta(stored=hashes), 0.1)
    core.on_worker_message("d1", worker.delta(removed=hashes), 0.2)

    assert cached(core) == 0


def test_a_drained_worker_gets_nothing_new() -> None:
    workers = [FakeWorker("d1"), FakeWorker("d2")]
    core = make_core(*workers)
    core.on_worker_message("d1", workers[0].status(worker_pb2.PHASE_DRAINING), 0.0)

    answers = [core.pick(ask(core, f"r{number}", prompt(number, 200)), 0.1) for number in range(8)]

    assert {answer.decode.worker_id for answer in answers if isinstance(answer, Routed)} == {"d2"}


def test_a_worker_with_a_wrong_canary_gets_nothing() -> None:
    worker = FakeWorker("d1")
    core = make_core(worker)
    core.on_worker_message("d1", worker.status(canary=worker_pb2.CANARY_FAILED), 0.0)

    view = core.statistics().workers[0]

    assert view.health is Health.FAILED
    assert "canary" in view.detail


def test_ranks_are_targets_of_their_own() -> None:
    worker = FakeWorker("d1", dp_size=4)
    core = make_core(worker)
    core.on_worker_message("d1", worker.delta(stored=worker.hashes(TOKENS), rank=2), 0.0)

    answer = core.pick(ask(core, "r", TOKENS), 0.1)

    assert isinstance(answer, Routed)
    assert (answer.decode.worker_id, answer.decode.rank) == ("d1", 2)


def test_lower_tiers_and_a_shared_store_extend_a_prefix() -> None:
    workers = [FakeWorker("d1"), FakeWorker("d2")]
    core = make_core(*workers)
    hashes = workers[0].hashes(TOKENS)
    core.on_worker_message("d1", workers[0].delta(stored=hashes[:20]), 0.0)
    core.on_worker_message("d1", workers[0].delta(stored=hashes[20:40], plane=worker_pb2.PLANE_HOST), 0.0)
    remote = workers[0].delta(stored=hashes[40:], plane=worker_pb2.PLANE_REMOTE, store_id="s")
    core.on_worker_message("d1", remote, 0.0)

    assert cached(core, "d1") == 62 * 16
    assert cached(core, "d2") == 0


def test_a_hybrid_models_prefix_ends_where_it_can_be_resumed() -> None:
    worker = FakeWorker("d1", hybrid=True)
    core = make_core(worker)
    hashes = worker.hashes(TOKENS)
    core.on_worker_message("d1", worker.delta(stored=hashes), 0.0)
    core.on_worker_message("d1", worker.delta(stored=hashes[29:30], plane=worker_pb2.PLANE_RESUMABLE), 0.0)

    assert cached(core) == 30 * 16


def test_a_worker_that_left_the_catalogue_leaves_nothing_behind() -> None:
    worker = FakeWorker("d1")
    core = make_core(worker)
    core.on_worker_message("d1", worker.delta(stored=worker.hashes(TOKENS)), 0.0)
    core.on_worker_message("d1", worker.load(accepted("x", epoch=3)), 0.0)
    core.apply_catalogue(catalogue([service()], []), 1.0)
    core.apply_catalogue(catalogue([service()], [worker]), 2.0)
    connect(core, worker, now=2.0)

    assert cached(core) == 0
    assert core.statistics().workers[0].in_flight == 0


def introduced(worker: FakeWorker, *, namespace: str, name: str) -> worker_pb2.WorkerMessage:
    message = worker.identity()
    message.identity.namespace, message.identity.worker_id = namespace, name
    return message


def test_an_agent_in_a_cluster_is_known_by_its_namespace_and_name() -> None:
    worker = FakeWorker("ns/d1")
    core = make_core(worker)

    core.on_worker_message("ns/d1", introduced(worker, namespace="ns", name="d1"), 0.1)
    core.on_worker_message("ns/d1", worker.status(), 0.1)

    assert isinstance(core.pick(ask(core, "r", TOKENS), 1.0), Routed)


@pytest.mark.parametrize(("namespace", "name"), [("ns", "d2"), ("other", "d1")])
def test_a_stranger_at_a_workers_address_gets_nothing_until_the_worker_is_back(namespace: str, name: str) -> None:
    worker = FakeWorker("ns/d1")
    core = make_core(worker)

    for message in (introduced(worker, namespace=namespace, name=name), worker.status()):
        core.on_worker_message("ns/d1", message, 0.1)

    view = core.statistics().workers[0]
    assert view.health is Health.FAILED
    assert not isinstance(core.pick(ask(core, "r", TOKENS), 1.0), Routed)

    for message in (introduced(worker, namespace="ns", name="d1"), worker.status()):
        core.on_worker_message("ns/d1", message, 0.2)
    assert isinstance(core.pick(ask(core, "s", TOKENS), 1.0), Routed)
