"""A naive subscriber that applies every message ends up with exactly what the agent holds, however slowly it reads."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from inferplane_api.proto import worker_pb2 as pb
from inferplane_workers.agent import wire
from inferplane_workers.agent.ledger import Change, Entry, Ledger, Ticket
from inferplane_workers.agent.routing_headers import Routing
from inferplane_workers.agent.stream_hub import BLOCKS_FLUSH_S, FLUSH_S, Expected, StreamHub, Subscription
from inferplane_workers.agent.timeline import Outcome, Side, Timeline
from inferplane_workers.agent.wire import Gauges, PlaneKey


@dataclass
class FakeState:
    """The agent's side: plain sets."""

    sets: dict[PlaneKey, set[int]] = field(default_factory=dict[PlaneKey, set[int]])
    ledger: Ledger | None = None

    def identity_body(self) -> bytes:
        return wire.identity_body(pb.Identity(worker_id="w"))

    def status_body(self) -> bytes:
        return wire.status_body(pb.WorkerStatus(phase=pb.PHASE_READY))

    def planes(self) -> Iterable[tuple[PlaneKey, bytes]]:
        return [(key, wire.pack(sorted(hashes))) for key, hashes in self.sets.items()]

    def entries(self) -> Iterable[Change]:
        return self.ledger.entries() if self.ledger else ()

    def gauges(self) -> Iterable[Gauges]:
        return ()


@dataclass
class Naive:
    """What a router would hold."""

    epoch: int = 0
    sequence: int = 0
    sets: dict[PlaneKey, set[int]] = field(default_factory=dict[PlaneKey, set[int]])
    running: dict[str, int] = field(default_factory=dict[str, int])
    expected: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    reports: list[str] = field(default_factory=list[str])

    def read(self, messages: Iterable[bytes]) -> None:
        for raw in messages:
            message = pb.WorkerMessage.FromString(raw)
            assert message.sequence == self.sequence + 1
            self.sequence = message.sequence
            if message.epoch != self.epoch:
                self.epoch = message.epoch
                self.sets.clear()
                self.running.clear()
            self._apply(message)

    def _apply(self, message: pb.WorkerMessage) -> None:
        match message.WhichOneof("body"):
            case "block_snapshot":
                part = message.block_snapshot
                held = self.sets.setdefault(PlaneKey(part.dp_rank, part.plane, part.store_id), set())
                if part.first:
                    held.clear()
                held.update(wire.unpack(part.hashes))
            case "block_delta":
                self._delta(message.block_delta)
            case "load_snapshot":
                self.running = {entry.request_id: entry.phase for entry in message.load_snapshot.entries}
            case "load_delta":
                for entry in message.load_delta.entries:
                    self.running[entry.request_id] = entry.phase
                    if entry.phase == pb.LOAD_PHASE_FINISHED:
                        del self.running[entry.request_id]
            case "report":
                self.reports.append(message.report.request_id)
            case _:
                pass

    def _delta(self, delta: pb.BlockDelta) -> None:
        if delta.expected:
            self.expected += [(delta.expected_by, hashed) for hashed in wire.unpack(delta.expected)]
            return
        held = self.sets.setdefault(PlaneKey(delta.dp_rank, delta.plane, delta.store_id), set())
        if delta.cleared:
            held.clear()
        removed, stored = set(wire.unpack(delta.removed)), set(wire.unpack(delta.stored))
        assert not removed & stored
        assert removed <= held
        assert not stored & held
        held -= removed
        held |= stored


class World:
    """A hub, its state and subscribers of any speed."""

    def __init__(self, *, max_messages: int = 4) -> None:
        self.state = FakeState()
        self.hub = StreamHub(state=self.state, epoch=1, schedule=lambda _: None, max_messages=max_messages)
        self.state.ledger = Ledger(self.hub.load)
        self.subscribers: list[tuple[Subscription, Naive]] = []

    def join(self) -> tuple[Subscription, Naive]:
        pair = self.hub.join(epoch=len(self.subscribers) + 1, wants_blocks=True, wake=lambda: None), Naive()
        self.subscribers.append(pair)
        return pair

    def read(self, index: int) -> None:
        if self.subscribers:
            subscription, naive = self.subscribers[index % len(self.subscribers)]
            naive.read(subscription.take(0.0))

    def flip(self, key: PlaneKey, hashes: set[int]) -> None:
        held = self.state.sets.setdefault(key, set())
        removed, stored = hashes & held, hashes - held
        held ^= hashes
        self.hub.blocks(key, removed=removed, stored=stored)

    def do(self, what: str, key: PlaneKey, hashes: set[int], number: int) -> None:
        match what:
            case "flip":
                self.flip(key, hashes)
            case "clear":
                self.clear(key)
            case "flush":
                self.hub.flush()
            case "read":
                self.read(number)
            case "join":
                self.join()
            case _:
                self.hub.void(100 + number)

    def report(self, request_id: str) -> None:
        self.hub.report(
            Timeline(accepted=0.0).report(
                routing=Routing(request_id),
                outcome=Outcome.OK,
                status=200,
                model="m",
                side=Side.DECODE,
                streamed=True,
                usage=None,
                now=1.0,
            )
        )

    def clear(self, key: PlaneKey) -> None:
        self.state.sets.setdefault(key, set()).clear()
        self.hub.blocks(key, cleared=True)


KEYS = st.builds(PlaneKey, st.integers(0, 1), st.sampled_from([pb.PLANE_DEVICE, pb.PLANE_RESUMABLE]))
HASHES = st.sets(st.integers(1, 12), max_size=6)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("flip"), KEYS, HASHES),
        st.tuples(st.just("clear"), KEYS, HASHES),
        st.tuples(st.just("flush"), KEYS, HASHES),
        st.tuples(st.just("read"), KEYS, HASHES),
        st.tuples(st.just("join"), KEYS, HASHES),
        st.tuples(st.just("void"), KEYS, HASHES),
        st.tuples(st.just("load"), KEYS, HASHES),
    ),
    max_size=60,
)


@settings(deadline=None)
@given(steps=STEPS)
def test_after_reading_everything_all_agree(steps: list[tuple[str, PlaneKey, set[int]]]) -> None:
    world = World()
    world.join()
    ledger = world.state.ledger
    assert ledger is not None
    open_tickets: dict[int, Ticket] = {}
    for number, (what, key, hashes) in enumerate(steps):
        if what == "load":
            open_tickets[number] = ledger.accept(Entry(f"r{number}", 1, 0))
            if len(open_tickets) > 2:
                ledger.finish(open_tickets.pop(next(iter(open_tickets))))
        else:
            world.do(what, key, hashes, number)
    world.hub.flush()
    for index in range(len(world.subscribers)):
        world.read(index)

    for _, naive in world.subscribers:
        assert {key: held for key, held in naive.sets.items() if held} == {
            key: held for key, held in world.state.sets.items() if held
        }
        assert set(naive.running) == {f"r{number}" for number in open_tickets}


def test_a_queue_that_overflows_becomes_a_snapshot() -> None:
    world = World(max_messages=2)
    subscription, naive = world.join()
    world.read(0)
    for number in range(1, 6):
        world.flip(PlaneKey(0), {number})
        world.hub.flush()
    naive.read(subscription.take(0.0))

    assert subscription.overflows == 1
    assert naive.sets[PlaneKey(0)] == {1, 2, 3, 4, 5}


def test_reports_outlive_a_queue_that_overflows_and_an_epoch_that_ends() -> None:
    world = World(max_messages=2)
    subscription, naive = world.join()
    world.read(0)
    world.report("a")
    for number in range(1, 6):
        world.flip(PlaneKey(0), {number})
        world.hub.flush()
    world.report("b")
    world.hub.void(2)
    naive.read(subscription.take(0.0))

    assert naive.reports == ["a", "b"]
    assert naive.epoch == 2


def test_the_oldest_reports_go_when_nobody_reads() -> None:
    world = World(max_messages=2)
    subscription, naive = world.join()
    for name in "abcd":
        world.report(name)
        world.hub.flush()
    naive.read(subscription.take(0.0))

    assert naive.reports == ["c", "d"]


def test_a_change_and_its_reverse_within_a_batch_are_not_sent() -> None:
    world = World()
    subscription, _ = world.join()
    world.read(0)
    world.flip(PlaneKey(0), {1})
    world.flip(PlaneKey(0), {1})
    world.hub.flush()

    assert subscription.take(0.0) == []


def test_expected_blocks_go_to_the_others_once_the_request_is_here() -> None:
    world = World()
    sender, own = world.join()
    _, other = world.join()
    world.read(0)
    world.read(1)
    world.hub.expect("r1", Expected(0, wire.pack([7, 8]), sender))
    world.read(1)
    before = list(other.expected)
    world.hub.accepted("r1")
    world.read(0)
    world.read(1)

    assert before == []
    assert other.expected == [("r1", 7), ("r1", 8)]
    assert own.expected == []


def test_an_expectation_that_comes_after_its_request_is_told_too() -> None:
    world = World()
    sender, _ = world.join()
    _, other = world.join()
    world.read(0)
    world.read(1)
    world.hub.accepted("r1")
    world.hub.expect("r1", Expected(0, wire.pack([7]), sender))
    world.read(1)

    assert other.expected == [("r1", 7)]


def test_a_planner_gets_load_and_no_blocks() -> None:
    world = World()
    world.flip(PlaneKey(0), {1, 2})
    planner = world.hub.join(epoch=9, wants_blocks=False, wake=lambda: None)
    naive = Naive()
    naive.read(planner.take(0.0))
    world.flip(PlaneKey(0), {3})
    assert world.state.ledger is not None
    world.state.ledger.accept(Entry("r1", 1, 0))
    world.hub.flush()
    naive.read(planner.take(0.0))

    assert naive.sets == {}
    assert set(naive.running) == {"r1"}


def test_large_planes_are_cut_into_messages_that_a_default_client_takes() -> None:
    hashes = wire.pack(range(1, 3 * wire.HASHES_PER_MESSAGE))
    bodies = list(wire.snapshot_bodies(PlaneKey(0), hashes))
    parts = [pb.WorkerMessage.FromString(body).block_snapshot for body in bodies]

    assert [(part.first, part.last) for part in parts] == [(True, False), (False, False), (False, True)]
    assert b"".join(part.hashes for part in parts) == hashes
    assert max(len(body) for body in bodies) < 4 * 1024 * 1024


def test_a_large_change_removes_before_it_stores() -> None:
    removed, stored = wire.pack(range(1, 200_000)), wire.pack(range(200_000, 400_000))
    parts = [
        pb.WorkerMessage.FromString(body).block_delta
        for body in wire.delta_bodies(PlaneKey(0), cleared=True, removed=removed, stored=stored)
    ]

    assert [part.cleared for part in parts] == [True] + [False] * (len(parts) - 1)
    assert b"".join(part.removed for part in parts) == removed
    assert b"".join(part.stored for part in parts) == stored
    assert max(index for index, part in enumerate(parts) if part.removed) < min(
        index for index, part in enumerate(parts) if part.stored
    )


def test_blocks_wait_for_each_other_but_for_nothing_that_is_more_urgent() -> None:
    asked: list[float] = []
    hub = StreamHub(state=FakeState(), epoch=1, schedule=asked.append)
    hub.blocks(PlaneKey(0), stored=[1])
    hub.blocks(PlaneKey(0), stored=[2])

    assert asked == [BLOCKS_FLUSH_S]

    hub.status_changed()
    hub.status_changed()

    assert asked == [BLOCKS_FLUSH_S, FLUSH_S]

    hub.flush()
    hub.blocks(PlaneKey(0), stored=[3])

    assert asked == [BLOCKS_FLUSH_S, FLUSH_S, BLOCKS_FLUSH_S]
