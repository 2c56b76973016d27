"""What every subscriber of the worker stream is told, in order, without ever waiting for one of them.

Problem: several router processes need the same facts, each at its own speed, and a slow one must cost neither memory
nor the others' time.  Idea: changes are gathered for a few milliseconds, written once, and put into one bounded queue
per subscriber; a queue that overflows is thrown away and replaced by a snapshot of the present.  Blocks are gathered
for longer than the rest: a router expects its own before they come, and pays for messages more than for blocks.
Reports of finished requests are no state that a snapshot could repeat, so they are kept apart and follow it.
Trade-off: a subscriber that stays behind for thousands of requests loses the oldest reports, never blocks or load.
Invariant: snapshot plus the deltas after it always equal the agent's own state.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, Protocol

from inferplane_workers.agent import wire
from inferplane_workers.agent.ledger import Change
from inferplane_workers.agent.timeline import Report
from inferplane_workers.agent.wire import Gauges, PlaneKey

FLUSH_S: Final = 0.002
BLOCKS_FLUSH_S: Final = 0.02
"""How long changes of blocks wait when there is nothing else to say."""
_NEVER: Final = float("inf")
_MAX_MESSAGES = 4_096
_MAX_BYTES = 16 * 1024 * 1024
_MAX_EXPECTED = 4_096
_MAX_EXPECTED_BYTES = 64 * 1024 * 1024


class State(Protocol):
    """The agent's own state, read whenever a snapshot is made."""

    def identity_body(self) -> bytes: ...

    def status_body(self) -> bytes: ...

    def planes(self) -> Iterable[tuple[PlaneKey, bytes]]:
        """Every plane that ever had a block, with its hashes packed; empty planes too."""
        ...

    def entries(self) -> Iterable[Change]: ...

    def gauges(self) -> Iterable[Gauges]: ...


@dataclass(slots=True)
class _Moves:
    """Net changes of one plane since the last flush."""

    cleared: bool = False
    moves: dict[int, bool] = field(default_factory=dict[int, bool])

    def note(self, hashed: int, *, stored: bool) -> None:
        """Note one change; a change and its reverse cancel each other."""
        if self.moves.get(hashed, stored) is not stored:
            del self.moves[hashed]
        else:
            self.moves[hashed] = stored

    def clear(self) -> None:
        self.cleared = True
        self.moves.clear()


@dataclass(frozen=True, slots=True)
class Expected:
    """The blocks a router expects one request to store: the whole chain of its prompt, in order."""

    dp_rank: int
    hashes: bytes
    sender: "Subscription | None"


class Subscription:
    """One subscriber's queue.  `wake` is called whenever there is something to take."""

    __slots__ = (
        "_bytes",
        "_hub",
        "_queue",
        "_reports",
        "_sequence",
        "behind",
        "epoch",
        "overflows",
        "wake",
        "wants_blocks",
    )

    def __init__(self, hub: "StreamHub", *, epoch: int, wants_blocks: bool, wake: Callable[[], None]) -> None:
        self._hub = hub
        self._queue: deque[bytes] = deque()
        self._reports: deque[bytes] = deque(maxlen=hub.max_messages)
        self._bytes = 0
        self._sequence = 0
        self.epoch = epoch
        self.wants_blocks = wants_blocks
        self.wake = wake
        self.behind = True
        self.overflows = 0

    def push(self, body: bytes) -> None:
        if self.behind:
            return  # a snapshot will say it all
        if len(self._queue) >= self._hub.max_messages or self._bytes + len(body) > self._hub.max_bytes:
            self.overflows += 1
            self._hub.overflows += 1
            self.fall_behind()
            return
        self._queue.append(body)
        self._bytes += len(body)
        if len(self._queue) == 1:
            self.wake()

    def push_report(self, body: bytes) -> None:
        """Queue the report of one request: it comes after what was queued before it, and outlives a dropped queue."""
        self._reports.append(body)
        if len(self._reports) == 1:
            self.wake()

    def fall_behind(self) -> None:
        """Drop the queue: the next thing to take is a snapshot."""
        self._queue.clear()
        self._bytes = 0
        self.behind = True
        self.wake()

    def take(self, sent_at: float) -> list[bytes]:
        """Return the messages to send now, framed for this stream."""
        if self.behind:
            bodies = self._hub.snapshot(self)
            self.behind = False
        else:
            bodies = list(self._queue)
        bodies += self._reports
        self._queue.clear()
        self._reports.clear()
        self._bytes = 0
        return [self._frame(body, sent_at) for body in bodies]

    def heartbeat(self, sent_at: float) -> bytes:
        return self._frame(wire.heartbeat_body(), sent_at)

    def close(self) -> None:
        self._hub.leave(self)

    def _frame(self, body: bytes, sent_at: float) -> bytes:
        self._sequence += 1
        return wire.frame(body, epoch=self._hub.epoch, sequence=self._sequence, sent_at=sent_at)


class StreamHub:
    """Gathers changes and hands them to subscribers.

    `schedule` asks for a `flush` so many seconds from now; the hub asks once per batch, twice if the second is sooner.
    `on_chain` hears once a request is both expected and accepted.
    """

    def __init__(
        self,
        *,
        state: State,
        epoch: int,
        schedule: Callable[[float], None],
        on_chain: Callable[[str, Expected], None] | None = None,
        max_messages: int = _MAX_MESSAGES,
        max_bytes: int = _MAX_BYTES,
    ) -> None:
        self._state = state
        self._schedule = schedule
        self._on_chain = on_chain
        self._asked_s = _NEVER
        self.epoch = epoch
        self.max_messages = max_messages
        self.max_bytes = max_bytes
        self.overflows = 0
        self._subscriptions: list[Subscription] = []
        self._changes: dict[PlaneKey, _Moves] = {}
        self._entries: list[Change] = []
        self._gauges: dict[int, Gauges] = {}
        self._reports: list[Report] = []
        self._identity = False
        self._status = False
        self._expected: OrderedDict[str, Expected] = OrderedDict()
        self._expected_bytes = 0
        self._accepted: OrderedDict[str, None] = OrderedDict()

    # Subscribers.

    def join(self, *, epoch: int, wants_blocks: bool, wake: Callable[[], None]) -> Subscription:
        subscription = Subscription(self, epoch=epoch, wants_blocks=wants_blocks, wake=wake)
        self._subscriptions.append(subscription)
        return subscription

    def leave(self, subscription: Subscription) -> None:
        if subscription in self._subscriptions:
            self._subscriptions.remove(subscription)

    @property
    def subscribers(self) -> int:
        return len(self._subscriptions)

    def snapshot(self, subscription: Subscription) -> list[bytes]:
        """Return everything that is so now; what was pending goes to the others first."""
        self.flush()
        bodies = [self._state.identity_body(), self._state.status_body()]
        if subscription.wants_blocks:
            for key, hashes in self._state.planes():
                bodies.extend(wire.snapshot_bodies(key, hashes))
        bodies.extend(wire.load_snapshot_bodies(self._state.entries(), self._state.gauges()))
        return bodies

    # Changes.

    def blocks(
        self, key: PlaneKey, *, cleared: bool = False, removed: Iterable[int] = (), stored: Iterable[int] = ()
    ) -> None:
        """Note net changes of one plane: cleared, then removed, then stored."""
        change = self._changes.setdefault(key, _Moves())
        if cleared:
            change.clear()
        for hashed in removed:
            change.note(hashed, stored=False)
        for hashed in stored:
            change.note(hashed, stored=True)
        self._ask(BLOCKS_FLUSH_S)

    def load(self, change: Change) -> None:
        self._entries.append(change)
        self._ask()

    def gauges(self, gauges: Gauges) -> None:
        self._gauges[gauges.dp_rank] = gauges
        self._ask()

    def report(self, report: Report) -> None:
        self._reports.append(report)
        self._ask()

    def status_changed(self) -> None:
        self._status = True
        self._ask()

    def identity_changed(self) -> None:
        self._identity = True
        self._ask()

    def void(self, epoch: int) -> None:
        """Begin a new epoch: all that was said is void, and everyone gets a snapshot."""
        self._changes.clear()
        self.epoch = epoch
        for subscription in self._subscriptions:
            subscription.fall_behind()

    # Bursts: what accepted requests will store.

    def expect(self, request_id: str, expected: Expected) -> None:
        """Keep what a router expects; tell the others once the request is here."""
        self._forget(request_id)
        self._expected[request_id] = expected
        self._expected_bytes += len(expected.hashes)
        while len(self._expected) > _MAX_EXPECTED or self._expected_bytes > _MAX_EXPECTED_BYTES:
            self._forget(next(iter(self._expected)))
        if request_id in self._accepted:
            self._announce(request_id, expected)

    def accepted(self, request_id: str) -> None:
        self._accepted[request_id] = None
        if len(self._accepted) > _MAX_EXPECTED:
            self._accepted.popitem(last=False)
        expected = self._expected.get(request_id)
        if expected is not None:
            self._announce(request_id, expected)

    def chain_of(self, request_id: str) -> Expected | None:
        """Return the prompt's blocks of a request, if its router sent them."""
        return self._expected.get(request_id)

    def finished(self, request_id: str) -> None:
        self._forget(request_id)
        self._accepted.pop(request_id, None)

    def _forget(self, request_id: str) -> None:
        known = self._expected.pop(request_id, None)
        if known is not None:
            self._expected_bytes -= len(known.hashes)

    # Inside.

    def flush(self) -> None:
        """Write what was gathered and give it to every subscriber."""
        self._asked_s = _NEVER
        if self._subscriptions:
            self._send()
        self._identity = self._status = False
        self._changes.clear()
        self._entries.clear()
        self._gauges.clear()
        self._reports.clear()

    def _send(self) -> None:
        bodies: list[bytes] = []
        if self._identity:
            bodies.append(self._state.identity_body())
        if self._status:
            bodies.append(self._state.status_body())
        blocks = [body for key, change in self._changes.items() for body in _change_bodies(key, change)]
        if self._entries or self._gauges:
            bodies.extend(wire.load_delta_bodies(self._entries, list(self._gauges.values())))
        reports = [wire.report_body(report) for report in self._reports]
        for subscription in self._subscriptions:
            if subscription.wants_blocks:
                for body in blocks:
                    subscription.push(body)
            for body in bodies:
                subscription.push(body)
            for body in reports:
                subscription.push_report(body)

    def _announce(self, request_id: str, expected: Expected) -> None:
        if self._on_chain is not None:
            self._on_chain(request_id, expected)
        body = wire.expected_body(expected.dp_rank, request_id, expected.hashes)
        for subscription in self._subscriptions:
            if subscription is not expected.sender and subscription.wants_blocks:
                subscription.push(body)

    def _ask(self, within_s: float = FLUSH_S) -> None:
        if within_s < self._asked_s:
            self._asked_s = within_s
            self._schedule(within_s)


def _change_bodies(key: PlaneKey, change: _Moves) -> Iterable[bytes]:
    removed = wire.pack([hashed for hashed, stored in change.moves.items() if not stored])
    stored = wire.pack([hashed for hashed, stored in change.moves.items() if stored])
    if not (change.cleared or removed or stored):
        return ()
    return wire.delta_bodies(key, cleared=change.cleared, removed=removed, stored=stored)
