"""Requests that wait for room: by priority, then by their limit with the shorter first, fair among tenants.

Problem: work handed to a full engine cannot be moved any more, and waits behind whatever is there.  Idea: hold it here
until some target has room, and decide then, in an order that serves most: the higher priority first, within it tenants
in turn, within a tenant by one moment (`due`) that arrival, limit and length make together.  It never changes, so
waiting is ageing: a long prompt lets pass those that come within a bounded time after it, and nobody else.  Who cannot
be in time any more goes behind all of its priority that still can.
Trade-off: priorities are strict; who is below a load that never ends is told so by its deadline.
Invariants: everybody who joins leaves once, by `leave`, `take_late` or `serve`; in one round a place is sought in vain
at most once for requests that may go to the same workers.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Final, NamedTuple

from inferplane_router.core.fairness import Turns
from inferplane_router.core.values import Ask
from inferplane_runtime.values import value

_LOOK_PAST: Final = 8
"""Kinds of requests that are tried in vain before a round ends."""
_SHORTER_FIRST: Final = 2.0
"""Seconds for which a request lets shorter ones pass, for every second that computing its own prompt takes."""

Conditions = tuple[object, ...]
"""What decides who may be asked: requests with equal ones find room together or not at all."""


def conditions_of(ask: Ask) -> Conditions:
    return ask.model.adapter, ask.only, ask.exclude


@value(frozen=True, slots=True)
class Waiting:
    """One who waits; moments are seconds of the caller's clock."""

    ask: Ask
    since: float
    deadline: float
    """When its waiting ends without a place."""
    latest: float
    """Until when a place keeps its limit."""
    due: float
    """Its rank within priority and tenant; the smallest is first."""
    work: float
    """What it takes from others, in uncached tokens; at least 1."""
    conditions: Conditions


def begin_waiting(
    ask: Ask, *, now: float, timeout_s: float, patience_s: float, own_s: float = 0.0, work: float = 1.0
) -> Waiting:
    """Describe one who begins to wait.

    `timeout_s`: longest wait; `patience_s`: longest wait that keeps its limit; `own_s`: time to compute its prompt.
    """
    latest = now + min(patience_s, timeout_s)
    due = latest + _SHORTER_FIRST * own_s
    return Waiting(ask, now, now + timeout_s, latest, due, max(1.0, work), conditions_of(ask))


class _Lane(NamedTuple):
    """Whom a queue of its own is kept for; the greater (priority, timely) is served first."""

    priority: int
    timely: bool
    tenant: str


_Entry = tuple[float, int, Waiting]
"""(due, number in order of joining, who)."""


@dataclass(slots=True)
class WaitingLine:
    """The queue of one service."""

    _where: dict[str, tuple[_Lane, _Entry]] = field(default_factory=dict[str, tuple[_Lane, _Entry]])
    _lanes: dict[_Lane, list[_Entry]] = field(default_factory=dict[_Lane, list[_Entry]])
    _kinds: dict[Conditions, int] = field(default_factory=dict[Conditions, int])
    _latest: list[tuple[float, int, str]] = field(default_factory=list[tuple[float, int, str]])
    _turns: Turns = field(default_factory=Turns)
    _joined: int = 0

    def __len__(self) -> int:
        return len(self._where)

    def __iter__(self) -> Iterator[Waiting]:
        return iter([entry[2] for _, entry in self._where.values()])

    def __contains__(self, request_id: str) -> bool:
        return request_id in self._where

    def blocks(self, ask: Ask) -> bool:
        """Say whether somebody waits already who may go wherever this request may."""
        return bool(self._where) and conditions_of(ask) in self._kinds

    def join(self, who: Waiting) -> None:
        self._joined += 1
        self._kinds[who.conditions] = self._kinds.get(who.conditions, 0) + 1
        self._enter(_Lane(who.ask.priority, timely=True, tenant=who.ask.tenant), (who.due, self._joined, who))
        heappush(self._latest, (who.latest, self._joined, who.ask.request_id))

    def leave(self, request_id: str) -> Waiting | None:
        if (found := self._where.pop(request_id, None)) is None:
            return None
        lane, entry = found
        self._remove(lane, entry)
        conditions = entry[2].conditions
        self._kinds[conditions] -= 1
        if not self._kinds[conditions]:
            del self._kinds[conditions]
        return entry[2]

    def take_late(self, now: float, *, strict: bool = False) -> list[Waiting]:
        """Remove and return those whose deadline has come; with `strict` also those who cannot be in time any more."""
        self._demote(now)
        ended = [
            entry[2] for lane, entry in self._where.values() if entry[2].deadline <= now or (strict and not lane.timely)
        ]
        for who in ended:
            self.leave(who.ask.request_id)
        return ended

    def has_late(self, now: float) -> bool:
        """Say whether somebody waits who cannot be in time any more."""
        self._demote(now)
        return any(not lane.timely for lane in self._lanes)

    def last(self) -> Waiting | None:
        """Return who would be served last."""
        lane = max(self._lanes, key=self._order, default=None)
        return None if lane is None else self._lanes[lane][-1][2]

    def ahead_of(self, who: Waiting) -> tuple[int, float]:
        """Return how many requests would be served before this one, if it joined now, and their work."""
        count, work, mine = 0, 0.0, (who.ask.priority, True)
        for lane, entries in self._lanes.items():
            band = (lane.priority, lane.timely)
            if band < mine:
                continue
            ahead = entries if band > mine else entries[: bisect_left(entries, (who.due, self._joined + 1))]
            count += len(ahead)
            work += sum(entry[2].work for entry in ahead)
        return count, work

    def serve(self, place: Callable[[Waiting], bool], now: float) -> None:
        """Offer room in order; `place` says whether the request is through with waiting."""
        self._demote(now)
        in_vain: set[Conditions] = set()
        while len(in_vain) < _LOOK_PAST and (who := self._first(in_vain)) is not None:
            if place(who):
                self.leave(who.ask.request_id)
                self._turns.charge(who.ask.tenant, who.work, {lane.tenant for lane in self._lanes})
            else:
                in_vain.add(who.conditions)

    def next_deadline(self) -> float | None:
        """Return the next moment at which somebody's deadline comes or somebody is late."""
        self._drop_gone()
        ends = [entry[2].deadline for _, entry in self._where.values()]
        lates = [self._latest[0][0]] if self._latest else []
        return min([*ends, *lates], default=None)

    # Inside ------------------------------------------------------------------------------------------------------

    def _first(self, in_vain: set[Conditions]) -> Waiting | None:
        """Return who is next among those whose conditions were not tried in vain."""
        if len(in_vain) == len(self._kinds):
            return None
        for lane in sorted(self._lanes, key=self._order):
            for _, _, who in self._lanes[lane]:
                if who.conditions not in in_vain:
                    return who
        return None

    def _order(self, lane: _Lane) -> tuple[int, bool, float, float]:
        return -lane.priority, not lane.timely, self._turns.begins(lane.tenant), self._lanes[lane][0][0]

    def _demote(self, now: float) -> None:
        """Put those behind who cannot be in time any more."""
        while self._latest and self._latest[0][0] <= now:
            _, number, request_id = heappop(self._latest)
            found = self._where.get(request_id)
            if found is not None and found[1][1] == number:
                lane, entry = found
                self._remove(lane, entry)
                self._enter(lane._replace(timely=False), entry)

    def _drop_gone(self) -> None:
        while self._latest and self._latest[0][2] not in self._where:
            heappop(self._latest)

    def _enter(self, lane: _Lane, entry: _Entry) -> None:
        self._where[entry[2].ask.request_id] = lane, entry
        insort(self._lanes.setdefault(lane, []), entry)

    def _remove(self, lane: _Lane, entry: _Entry) -> None:
        entries = self._lanes[lane]
        del entries[bisect_left(entries, entry)]
        if not entries:
            del self._lanes[lane]
