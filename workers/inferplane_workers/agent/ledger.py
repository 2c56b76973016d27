"""The load of one engine as a set of requests, not as counters.

Problem: counters that are raised and lowered leak on every path that forgets one side.  Idea: one entry per request in
force, with its phase; routers are told of entries, and a router recognises its own by its epoch.  Trade-off: an entry
is larger than a counter.  Invariant: an entry is reported finished exactly once, whatever became of its request.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple, NewType

Ticket = NewType("Ticket", int)


class Phase(IntEnum):
    """Values of the wire's LoadPhase."""

    ACCEPTED = 1
    PREFILL_DONE = 2
    FINISHED = 3


@dataclass(frozen=True, slots=True)
class Entry:
    """One request as routers see it."""

    request_id: str
    router_epoch: int
    dp_rank: int
    prompt_tokens: int = 0
    uncached_tokens: int = 0
    tenant: str = ""
    adapter: str = ""
    adapter_revision: str = ""
    priority: int = 0
    nonce: int = 0
    """What the router tells requests of one id apart by."""


class Change(NamedTuple):
    """Where a request has come to; a tuple, since there are three for every request."""

    entry: Entry
    phase: Phase
    output_tokens: int = 0


class Ledger:
    """Every request in force.  A client may repeat a request id, so entries are kept by ticket."""

    __slots__ = ("_changes", "_next", "_publish")

    def __init__(self, publish: Callable[[Change], None]) -> None:
        self._publish = publish
        self._changes: dict[Ticket, Change] = {}
        self._next = 1

    def accept(self, entry: Entry) -> Ticket:
        ticket = Ticket(self._next)
        self._next += 1
        self._changes[ticket] = change = Change(entry, Phase.ACCEPTED)
        self._publish(change)
        return ticket

    def prefill_done(self, ticket: Ticket) -> None:
        """Note the first token; later calls change nothing."""
        known = self._changes.get(ticket)
        if known is None or known.phase is not Phase.ACCEPTED:
            return
        self._changes[ticket] = change = Change(known.entry, Phase.PREFILL_DONE)
        self._publish(change)

    def finish(self, ticket: Ticket, *, output_tokens: int = 0) -> None:
        """Take the request out; a second call changes nothing."""
        known = self._changes.pop(ticket, None)
        if known is not None:
            self._publish(Change(known.entry, Phase.FINISHED, output_tokens))

    def entries(self) -> Iterable[Change]:
        """Return where every request in force has come to."""
        return self._changes.values()

    def __len__(self) -> int:
        return len(self._changes)
