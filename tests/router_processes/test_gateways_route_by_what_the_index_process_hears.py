"""The cores of gateways that read along decide as one would that hears the agents itself."""

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inferplane_api.proto import worker_pb2 as wire
from inferplane_router.core.followed_index import FollowedIndex
from inferplane_router.core.router import RouterCore
from inferplane_router.core.testing import FakeWorker, accepted, ask, make_core, prompt
from inferplane_router.core.values import Routed, WorkerView
from inferplane_router.processes.frames import Kind, named
from inferplane_router.processes.testing import GatewaySide, IndexSide, SharedMemory

TOKENS = prompt(1, 640)
BLOCKS = (640 - 1) // 16


def cached(core: RouterCore, request_id: str, only: str = "") -> tuple[str, int]:
    """Pick, and return where and how many tokens are expected to be cached there; the pick is taken back."""
    answer = core.pick(ask(core, request_id, TOKENS, only=frozenset({only} if only else ())), 0.0)
    assert isinstance(answer, Routed)
    core.complete(request_id, wire.OUTCOME_ENGINE_ERROR, 0.0)
    return answer.decode.worker_id, answer.prefill_cached_tokens


def world(gateways: int = 2, workers: int = 3) -> tuple[IndexSide, list[GatewaySide], list[FakeWorker]]:
    memory = SharedMemory()
    index, members = IndexSide(memory), [GatewaySide(memory) for _ in range(gateways)]
    for member in members:
        index.relay.join(member)
    there = [FakeWorker(f"w{number}") for number in range(workers)]
    index.apply(*there)
    index.connect(*there)
    return index, members, there


def test_every_gateway_finds_what_an_agent_announces() -> None:
    index, gateways, workers = world()
    index.hear(workers[2], workers[2].delta(stored=workers[2].hashes(TOKENS)))

    assert [cached(gateway.core, "a") for gateway in gateways] == [("w2", BLOCKS * 16)] * 2

    index.hear(workers[2], workers[2].delta(removed=workers[2].hashes(TOKENS)[10:]))

    assert [cached(gateway.core, "b", "w2") for gateway in gateways] == [("w2", 160)] * 2


def test_a_reader_counts_single_blocks() -> None:
    index, _, workers = world()
    hashes = workers[1].hashes(TOKENS)
    index.hear(workers[1], workers[1].delta(stored=hashes[5:25]))
    seat = index.core.seat_of("w1")
    assert seat is not None
    place = index.tables.place_of(seat.service, seat.key)
    assert place is not None
    reader = FollowedIndex(index.memory.arena, place)

    assert reader.held(seat.slots.start, hashes) == 20
    assert reader.held(seat.slots.start + 1, hashes) == 0
    assert reader.held(64, hashes) == 0


def test_blocks_are_not_sent_to_gateways() -> None:
    index, (gateway, _), workers = world()
    before = len(gateway.kinds)
    for number in range(20):
        index.hear(workers[0], workers[0].delta(stored=workers[0].hashes(prompt(number, 320))))

    assert len(gateway.kinds) == before + 1  # the first one says that events arrive


def test_a_prediction_of_one_gateway_is_known_to_the_others() -> None:
    index, (first, second), workers = world()
    expect = wire.Expect(request_id="r", hashes=workers[1].hashes(TOKENS).tobytes())
    body = named("w1", wire.Expects(expects=[expect]).SerializeToString())
    index.relay.pass_on(Kind.EXPECT, body, but=first)

    assert cached(second.core, "a") == ("w1", BLOCKS * 16)
    assert cached(first.core, "a", "w1") == ("w1", 0)


def test_workers_that_come_leave_and_change_are_followed() -> None:
    index, (gateway, _), workers = world()
    index.apply(workers[1], workers[2])
    late = FakeWorker("late", dp_size=3)
    index.apply(workers[1], workers[2], late)
    index.connect(late)
    index.hear(late, late.delta(stored=late.hashes(TOKENS), rank=1))

    answer = gateway.core.pick(ask(gateway.core, "a", TOKENS), 0.0)

    assert isinstance(answer, Routed)
    assert (answer.decode.worker_id, answer.decode.rank) == ("late", 1)
    assert {view.worker_id for view in gateway.core.statistics().workers} == {"w1", "w2", "late"}


def test_a_service_may_have_more_targets_than_a_word() -> None:
    index, (gateway, _), _ = world()
    workers = [FakeWorker(f"x{number}", dp_size=8) for number in range(20)]
    index.apply(*workers)
    index.connect(*workers)
    index.hear(workers[19], workers[19].delta(stored=workers[19].hashes(TOKENS), rank=7))

    assert cached(gateway.core, "a") == ("x19", BLOCKS * 16)


def test_revisions_have_tables_of_their_own() -> None:
    index, (gateway, _), workers = world()
    new = FakeWorker("new", model_revision="def")
    index.apply(*workers, new)
    index.connect(new)
    index.hear(new, new.delta(stored=new.hashes(TOKENS)))
    index.hear(workers[0], workers[0].delta(stored=workers[0].hashes(TOKENS)[:8]))

    assert cached(gateway.core, "a", "new") == ("new", BLOCKS * 16)
    assert cached(gateway.core, "b", "w0") == ("w0", 128)


# The same whatever comes, and whenever a gateway joins.

IDS = st.sampled_from(["a", "b", "c"])
PHASES = st.sampled_from([wire.PHASE_READY, wire.PHASE_DRAINING, wire.PHASE_FAILED])


@dataclass(frozen=True)
class Said:
    """What a worker says next, and a number or names for it."""

    what: str
    number: int = 0
    phase: wire.Phase = wire.PHASE_READY
    names: frozenset[str] = frozenset()

    def by(self, worker: FakeWorker) -> wire.WorkerMessage:  # noqa: PLR0911 - a table
        hashes = worker.hashes(TOKENS)[self.number :]
        entries = [accepted(name, epoch=9) for name in sorted(self.names)]
        match self.what:
            case "status":
                return worker.status(self.phase)
            case "accepted":
                return worker.load(*entries)
            case "finished":
                return worker.load(*(_finished(name) for name in self.names))
            case "load":
                return worker.load(*entries, snapshot=True)
            case "stored":
                return worker.delta(stored=hashes)
            case "removed":
                return worker.delta(removed=hashes)
            case "cleared":
                return worker.delta(cleared=True)
            case "identity":
                return worker.identity()
            case _:
                return worker.heartbeat()


def _finished(request_id: str) -> wire.LoadEntry:
    return wire.LoadEntry(request_id=request_id, router_epoch=9, phase=wire.LOAD_PHASE_FINISHED)


said = st.one_of(
    st.builds(Said, st.just("status"), phase=PHASES),
    st.builds(Said, st.sampled_from(["accepted", "finished", "load"]), names=st.frozensets(IDS)),
    st.builds(Said, st.sampled_from(["stored", "removed"]), st.integers(0, 39)),
    st.builds(Said, st.sampled_from(["cleared", "identity", "heartbeat"])),
)


def views(core: RouterCore) -> list[tuple[object, ...]]:
    return [_of(view) for view in core.statistics().workers]


def _of(view: WorkerView) -> tuple[object, ...]:
    return view.worker_id, view.health, view.in_flight, view.uncached_tokens, view.kv_mode


@pytest.mark.slow
@pytest.mark.timeout(240)
@settings(max_examples=30)
@given(steps=st.lists(st.tuples(st.integers(0, 2), said), max_size=25), joins=st.integers(0, 25))
def test_a_gateway_knows_what_a_router_of_one_process_knows(steps: list[tuple[int, Said]], joins: int) -> None:
    index, (early, _), workers = world()
    alone = make_core(*workers)
    for worker in workers:
        worker.sequence = 2  # `make_core` has let them say who they are once more
    late: GatewaySide | None = None
    for at, (number, say) in enumerate(steps):
        if at == joins:
            late = GatewaySide(index.memory)
            index.relay.join(late)
        message = say.by(workers[number])
        index.hear(workers[number], message)
        alone.on_worker_message(workers[number].worker_id, message, 0.0)
    cores = [early.core] if late is None else [early.core, late.core]

    for core in cores:
        assert sorted(views(core), key=str) == sorted(views(alone), key=str)
        for worker in workers:
            if any(
                view.worker_id == worker.worker_id and view.health == "ready" for view in alone.statistics().workers
            ):
                assert cached(core, "x", worker.worker_id) == cached(alone, "x", worker.worker_id)


# A writer that dies.


def test_the_next_index_process_shows_nothing_less_and_gives_the_same_slots() -> None:
    memory = SharedMemory()
    first, gateway = IndexSide(memory), GatewaySide(memory)
    first.relay.join(gateway)
    workers = [FakeWorker(f"w{number}") for number in range(3)]
    first.apply(*workers)
    first.connect(*workers)
    for worker in workers:
        first.hear(worker, worker.delta(stored=worker.hashes(TOKENS)[: 10 * (1 + workers.index(worker))]))
    seats = {worker.worker_id: first.core.seat_of(worker.worker_id) for worker in workers}

    gateway.follower.gone()
    second = IndexSide(memory)
    second.relay.join(gateway)
    second.apply(*workers)
    second.connect(workers[2])
    second.hear(workers[2], workers[2].snapshot(workers[2].hashes(TOKENS)[:5]), workers[2].load(snapshot=True))

    assert second.tables.awaited - second.relay.filled == {"w0", "w1"}
    assert [cached(gateway.core, "a", f"w{number}") for number in range(3)] == [("w0", 160), ("w1", 320), ("w2", 480)]

    second.connect(workers[1], workers[0])
    second.hear(workers[1], workers[1].load(snapshot=True))
    second.hear(workers[0], workers[0].snapshot(workers[0].hashes(TOKENS)), workers[0].load(snapshot=True))
    second.tables.settle()

    assert {worker.worker_id: second.core.seat_of(worker.worker_id) for worker in workers} == seats
    found = [cached(gateway.core, "b", f"w{number}") for number in range(3)]
    assert found == [("w0", BLOCKS * 16), ("w1", 0), ("w2", 80)]


def test_what_only_the_last_writer_had_is_given_back() -> None:
    memory = SharedMemory()
    first = IndexSide(memory)
    gone, stays = FakeWorker("gone", dp_size=4, model_revision="old"), FakeWorker("stays")
    first.apply(gone, stays)
    first.connect(gone, stays)
    free = memory.arena.free_bytes

    second = IndexSide(memory)
    second.apply(stays)
    second.connect(stays)
    second.tables.settle()
    (layout,) = memory.seat_map.read().values()

    assert set(layout.seats) == {"stays"}
    assert set(layout.places) == {stays.key_space}
    assert memory.arena.free_bytes > free

    second.apply(stays, FakeWorker("next", dp_size=4))
    late = FakeWorker("next", dp_size=4)
    second.connect(late)
    seat = second.core.seat_of("next")

    assert seat is not None
    assert seat.slots == range(4)


def test_a_worker_that_does_not_come_back_is_lost_for_gateways_once_all_is_known() -> None:
    memory = SharedMemory()
    first, gateway = IndexSide(memory), GatewaySide(memory)
    first.relay.join(gateway)
    workers = [FakeWorker("here"), FakeWorker("away")]
    first.apply(*workers)
    first.connect(*workers)

    gateway.follower.gone()
    healths = {view.worker_id: view.health.value for view in gateway.core.statistics().workers}

    assert healths == {"here": "ready", "away": "ready"}

    second = IndexSide(memory)
    second.relay.join(gateway)
    second.apply(*workers)
    second.connect(workers[0])
    second.relay.synced((gateway,))
    healths = {view.worker_id: view.health.value for view in gateway.core.statistics().workers}

    assert gateway.kinds[-1] is Kind.SYNCED
    assert healths == {"here": "ready", "away": "suspect"}
