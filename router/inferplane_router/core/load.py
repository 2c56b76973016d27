"""What every target has to do, as sets of requests, kept as sums for scoring.

Problem: a router must count what it has just sent, before the worker says so, and must not count it twice or for ever.
Idea: entries are keyed by (router epoch, request id), as agents report them: our own entry is replaced by the report
of the same request, another router's is added, and FINISHED removes either.  An entry that its agent never confirms
expires.  A client may use an id again before the agent has told the end of its last request, so a nonce says of which
one a report is.  Whoever passes an answer on sees its end before the agent's words of it arrive, so what we have
released is remembered for a while: an agent that only now tells of its acceptance does not put it back.
Trade-off: sums are kept incrementally, one entry at a time.
Invariant: the row of a slot is the sum over its entries.
"""

import heapq
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from inferplane_api.proto import worker_pb2
from inferplane_router.core.score_kernels import AHEAD_TOKENS, CONTEXT_TOKENS, IN_FLIGHT, LOADS, WAITING, Floats

_NEVER: Final = float("inf")

Key = tuple[int, str]
"""(epoch of the router process, request id)."""


@dataclass(slots=True)
class _Entry:
    prompt_tokens: int
    uncached_tokens: int
    output_tokens: int
    prefilling: bool
    decodes: bool
    """False once a prefill worker has answered: it holds memory, but computes nothing more."""
    nonce: int
    """0 where the id alone names the request."""
    expires: float
    """When it goes unless the agent confirms it; infinity once it has."""


class _Over(NamedTuple):
    """A request that was released."""

    nonce: int
    until: float
    """How long late words about it are looked out for."""


class LoadTable:
    """Loads of the targets of one service."""

    def __init__(self, *, epoch: int, unconfirmed_s: float = 10.0) -> None:
        self._epoch = epoch
        self._unconfirmed_s = unconfirmed_s
        self.rows: Floats = np.zeros((64, LOADS))
        self._sums = _cells_of(self.rows)
        """The same numbers: single ones are read and written faster this way."""
        self._entries: dict[int, dict[Key, _Entry]] = {}
        self._due: list[tuple[float, int, Key]] = []
        self._over: dict[int, dict[str, _Over]] = {}
        """Requests of ours that we released and whose end the agents have not told, by slot and id."""
        self._passing: deque[tuple[float, int, str]] = deque()
        """When those are forgotten, the oldest first."""

    def reserve(self, slots: int) -> None:
        if slots > self.rows.shape[0]:
            rows = np.zeros((slots, LOADS))
            rows[: self.rows.shape[0]] = self.rows
            self.rows, self._sums = rows, _cells_of(rows)

    def expect(self, slot: int, request_id: str, *, prompt: int, uncached: int, now: float, nonce: int = 0) -> None:
        """Count a request that was just routed there."""
        key = (self._epoch, request_id)
        expires = now + self._unconfirmed_s
        prefilling = uncached > 0
        if over := self._over.get(slot):
            over.pop(request_id, None)
        self._put(slot, key, _Entry(prompt, uncached, 0, prefilling, decodes=True, nonce=nonce, expires=expires))
        heapq.heappush(self._due, (expires, slot, key))

    def report(self, slot: int, reported: worker_pb2.LoadEntry, *, decodes: bool) -> None:
        """Take an agent's word for one request; `decodes` is False for a prefill pool's worker."""
        key = (reported.router_epoch, reported.request_id)
        known = self._entries.get(slot, {}).get(key)
        another = known is not None and _differ(known.nonce, reported.nonce)
        if reported.phase == worker_pb2.LOAD_PHASE_FINISHED:
            if not another:
                self._take(slot, key)
                self._forget(slot, reported)
            return
        if key[0] == self._epoch and (another or (known is None and self._is_over(slot, reported))):
            return  # of a request of ours that is over
        if reported.phase not in {worker_pb2.LOAD_PHASE_ACCEPTED, worker_pb2.LOAD_PHASE_PREFILL_DONE}:
            return
        known = None if another else known
        prefilled = reported.phase == worker_pb2.LOAD_PHASE_PREFILL_DONE
        prompt = reported.prompt_tokens or (known.prompt_tokens if known else 0)
        uncached = known.uncached_tokens if known else reported.uncached_tokens
        self._put(
            slot,
            key,
            _Entry(
                prompt_tokens=prompt,
                uncached_tokens=uncached,
                output_tokens=reported.output_tokens,
                prefilling=not prefilled and uncached > 0,
                decodes=decodes or not prefilled,
                nonce=reported.nonce or (known.nonce if known else 0),
                expires=_NEVER,
            ),
        )

    def release(self, slot: int, request_id: str, now: float) -> None:
        """Drop our own entry of a request, confirmed or not; what its agent says of it later counts no more."""
        entry = self._take(slot, (self._epoch, request_id))
        if entry is not None:
            until = now + self._unconfirmed_s
            self._over.setdefault(slot, {})[request_id] = _Over(entry.nonce, until)
            self._passing.append((until, slot, request_id))

    def replace(self, slots: range, entries: Iterable[worker_pb2.LoadEntry], *, decodes: bool) -> None:
        """Take a snapshot: what the agent had confirmed and does not name any more is gone."""
        named = [(slots.start + entry.dp_rank, entry) for entry in entries if entry.dp_rank < len(slots)]
        keep = {(slot, (entry.router_epoch, entry.request_id)) for slot, entry in named}
        for slot in slots:
            for key, known in tuple(self._entries.get(slot, {}).items()):
                if known.expires == _NEVER and (slot, key) not in keep:
                    self._take(slot, key)
        for slot, entry in named:
            self.report(slot, entry, decodes=decodes)

    def unconfirm(self, slot: int, now: float) -> None:
        """Follow a lost stream: others' requests are forgotten, ours must be confirmed again."""
        for key, entry in tuple(self._entries.get(slot, {}).items()):
            if key[0] != self._epoch:
                self._take(slot, key)
            elif entry.expires == _NEVER:
                entry.expires = now + self._unconfirmed_s
                heapq.heappush(self._due, (entry.expires, slot, key))

    def drop(self, slot: int) -> None:
        self._entries.pop(slot, None)
        self._over.pop(slot, None)
        self.rows[slot] = 0

    def expire(self, now: float) -> None:
        while self._due and self._due[0][0] <= now:
            expires, slot, key = heapq.heappop(self._due)
            entry = self._entries.get(slot, {}).get(key)
            if entry is not None and entry.expires == expires:
                self._take(slot, key)
        while self._passing and self._passing[0][0] <= now:
            until, slot, request_id = self._passing.popleft()
            over = self._over.get(slot, {}).get(request_id)
            if over is not None and over.until == until:
                del self._over[slot][request_id]

    def next_expiry(self) -> float | None:
        return self._due[0][0] if self._due else None

    def has(self, slot: int, request_id: str) -> bool:
        """Whether a request of ours is counted there."""
        return (self._epoch, request_id) in self._entries.get(slot, ())

    def requests(self, slot: int) -> Iterable[Key]:
        """Return who is counted there, in the order of their coming."""
        return self._entries.get(slot, ())

    def in_flight(self, slot: int) -> int:
        return len(self._entries.get(slot, ()))

    def _put(self, slot: int, key: Key, entry: _Entry) -> None:
        entries = self._entries.get(slot)
        if entries is None:
            entries = self._entries[slot] = {}
        elif (known := entries.get(key)) is not None:
            self._add(slot, known, -1)
        entries[key] = entry
        self._add(slot, entry, 1)

    def _take(self, slot: int, key: Key) -> _Entry | None:
        entries = self._entries.get(slot)
        entry = None if entries is None else entries.pop(key, None)
        if entry is not None:
            self._add(slot, entry, -1)
        return entry

    def _is_over(self, slot: int, reported: worker_pb2.LoadEntry) -> bool:
        over = self._over.get(slot, {}).get(reported.request_id)
        return over is not None and not _differ(over.nonce, reported.nonce)

    def _forget(self, slot: int, reported: worker_pb2.LoadEntry) -> None:
        """Look out no more for late words about a request: this was the last."""
        if reported.router_epoch == self._epoch and self._is_over(slot, reported):
            del self._over[slot][reported.request_id]

    def _add(self, slot: int, entry: _Entry, sign: int) -> None:
        sums = self._sums
        if entry.prefilling:
            sums[slot, AHEAD_TOKENS] += sign * entry.uncached_tokens
            sums[slot, WAITING] += sign
        if entry.decodes:
            sums[slot, IN_FLIGHT] += sign
            sums[slot, CONTEXT_TOKENS] += sign * (entry.prompt_tokens + entry.output_tokens)


def _differ(one: int, other: int) -> bool:
    """Say whether two nonces name two requests; an agent that does not know of them says 0."""
    return 0 not in {one, other} and one != other


def _cells_of(rows: Floats) -> "memoryview[float]":
    return rows.data.cast("B").cast("d", rows.shape)
