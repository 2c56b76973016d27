"""The load of one engine as a set of requests, not as counters.

Problem: counters that are raised and lowered leak on every path that forgets one side.  Idea: one entry per request in
force, with its phase; routers are told of entries, and a router recognises its own by its epoch.  Trade-off: an entry
is larger than a counter.  Invariant: an entry is reported finished exactly once, whatever became of its request.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import NewType

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
    phase: Phase = Phase.ACCEPTED
    prompt_tokens: int = 0
    uncached_tokens: int = 0
    output_tokens: int = 0
    tenant: str = ""
    adapter: str = ""
    adapter_revision: str = ""
    priority: int = 0


class Ledger:
    """Every request in force.  A client may repeat a request id, so entries are kept by ticket."""

    __slots__ = ("_entries", "_next", "_publish")

    def __init__(self, publish: Callable[[Entry], None]) -> None:
        self._publish = publish
        self._entries: dict[Ticket, Entry] = {}
        self._next = 1

    def accept(self, entry: Entry) -> Ticket:
        ticket = Ticket(self._next)
        self._next += 1
        self._entries[ticket] = entry
        self._publish(entry)
        return ticket

    def prefill_done(self, ticket: Ticket) -> None:
        """Note the first token; later calls change nothing."""
        entry = self._entries.get(ticket)
        if entry is None or entry.phase is not Phase.ACCEPTED:
            return
        self._entries[ticket] = moved = replace(entry, phase=Phase.PREFILL_DONE, uncached_tokens=0)
        self._publish(moved)

    def finish(self, ticket: Ticket, *, output_tokens: int = 0) -> None:
        """Take the request out; a second call changes nothing."""
        entry = self._entries.pop(ticket, None)
        if entry is None:
            return
        self._publish(replace(entry, phase=Phase.FINISHED, uncached_tokens=0, output_tokens=output_tokens))

    def entries(self) -> Iterable[Entry]:
        return self._entries.values()

    def __len__(self) -> int:
        return len(self._entries)
