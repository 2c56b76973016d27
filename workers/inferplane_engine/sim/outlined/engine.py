"""The engine's shell: requests by name, events as values; see the package for what it is good for."""

import heapq
import math

import numpy as np

from inferplane_engine.sim.cache import Contents
from inferplane_engine.sim.config import EngineConfig, LoadFailurePolicy
from inferplane_engine.sim.events import (
    EngineDied,
    EngineRequest,
    Event,
    Finished,
    FinishReason,
    Gauges,
    KeysChanged,
    LeaseEnded,
    Outline,
    PullWanted,
    RemoteSource,
    RequestStats,
    Tokens,
)
from inferplane_engine.sim.outlined import layout
from inferplane_engine.sim.outlined.hand_over_kernels import drop, enter, give_up_transfer, take_in
from inferplane_engine.sim.outlined.step_kernels import HAS_CHANGED, advance, next_at
from inferplane_engine.timing import TimingProfile, transfer_s

_UNKNOWN = -1.0
_WORD = (0,)
"""Tokens are not computed; this one stands for each."""


class OutlinedEngine:
    """One engine core; the same calls as `SimEngine`, for outlined requests in one group of full attention.

    Leases never end by themselves: whoever holds one confirms it.
    """

    def __init__(self, config: EngineConfig, profile: TimingProfile) -> None:
        if config.content or config.every_token or config.speculation is not None or len(config.groups) > 1:
            raise ValueError("an outlined engine computes no contents, tokens, speculation or windows")
        self.config = config
        self._profile = profile
        self._core = layout.new_core(config, profile)
        self._end = 0
        """Where the spans of all rows end."""
        self._row_of: dict[str, int] = {}
        self._requests: list[EngineRequest | None] = [None] * self._core.rows.shape[0]
        self._free_rows = list(range(self._core.rows.shape[0] - 1, -1, -1))
        self._arriving: list[tuple[float, int, str]] = []
        self._arrivals = 0
        self._events: list[Event] = []
        self._now = 0.0
        self._look_at = _UNKNOWN
        """When the kernels have something to do; void once something was done to the engine from outside."""
        self._dead = False

    # What a driver calls.

    def submit(self, request: EngineRequest, now: float) -> None:
        """Queue a request; it joins the next step."""
        outline = request.outline
        if request.request_id in self._row_of:
            raise ValueError(f"request {request.request_id!r} is already here")
        if outline is None:
            raise ValueError("outline: an outlined engine takes nothing else")
        room = self.config.max_model_len - outline.tokens
        if outline.tokens < 1 or room < 1 or request.max_tokens < 1:
            most = self.config.max_model_len - 1
            raise ValueError(f"a prompt has 1 to {most} tokens (max_model_len - 1) and an answer 1 at least")
        self._settle(now)
        self._enter(request, outline, outline.tokens + min(request.max_tokens, room), now)

    def abort(self, request_id: str, now: float) -> None:
        """Drop a request wherever it is; unknown ids are ignored, because an answer may just have ended."""
        self._settle(now)
        row = self._row_of.get(request_id)
        if row is None or self._phase(row) == layout.KEPT:
            return
        stats = self._stats(row, now)
        self._drop(row)
        self._events.append(Finished(now, request_id, FinishReason.ABORT, None, stats))

    def advance(self, now: float) -> list[Event]:
        """Let time pass until `now` and return what happened."""
        self._settle(now)
        events, self._events = self._events, []
        return events

    def next_event_at(self) -> float | None:
        """Return the earliest time at which something that can be seen will happen by itself; None: never."""
        if self._events:
            return self._now
        if self._dead:
            return None
        at = self._look_at
        if at < 0:
            at = self._look_at = next_at(self._core)
        if self._arriving:
            at = min(at, self._arriving[0][0])
        return None if at == math.inf else at

    # Hand-off.

    def pulled(self, request_id: str, contents: Contents, now: float) -> None:
        """Learn that the blocks of `PullWanted` have been read; they count once the link has had its time."""
        del contents
        self._settle(now)
        row = self._row_of.get(request_id)
        if row is None or self._phase(row) != layout.PULLING:
            return
        rows, begun = self._core.rows, float(self._core.times[row, layout.SAYS_PULL])
        moved = float(rows[row, layout.EXTERNAL])
        self._arrivals += 1
        at = max(now, begun + transfer_s(self._profile, tokens=moved))
        heapq.heappush(self._arriving, (at, self._arrivals, request_id))

    def pull_failed(self, request_id: str, now: float, detail: str) -> None:
        """Learn that the producer could not be reached, or went away."""
        self._settle(now)
        row = self._row_of.get(request_id)
        if row is None or self._phase(row) != layout.PULLING:
            return
        if self.config.load_failure is LoadFailurePolicy.RECOMPUTE:
            give_up_transfer(self._core, row)
            self._look_at = _UNKNOWN
            return
        stats = self._stats(row, now)
        self._drop(row)
        self._events.append(Finished(now, request_id, FinishReason.ERROR, None, stats, detail=detail))

    def read(self, request_id: str, blocks: tuple[tuple[int, ...], ...], now: float) -> Contents | None:
        """Return contents (there are none) of held blocks; None: not held for this request, or not these."""
        self._settle(now)
        row = self._row_of.get(request_id)
        if row is None or self._phase(row) != layout.KEPT or len(blocks) != 1:
            return None
        held, wanted = self._held(row), blocks[0]
        if len(wanted) > len(held) or held[len(held) - len(wanted) :] != wanted:
            return None
        return ((0,) * len(wanted),)

    def confirm(self, request_id: str, now: float) -> None:
        """Free a request's blocks: the consumer has everything, or does not want it."""
        self._settle(now)
        row = self._row_of.get(request_id)
        if row is not None and self._phase(row) == layout.KEPT:
            self._drop(row)
            self._events.append(LeaseEnded(now, request_id, expired=False))

    # Looking in, and breaking.

    def gauges(self) -> Gauges:
        state = self._core.state
        pulling = int((self._core.rows[:, layout.PHASE] == layout.PULLING).sum())
        return Gauges(
            running=int(state[layout.RUNNING]),
            waiting=int(state[layout.WAITING] + state[layout.READY]) + pulling,
            waiting_for_transfer=pulling,
            kv_usage=self.held_blocks / (self.config.blocks - 1),
            prefix_queries=int(state[layout.QUERIES]),
            prefix_hits=int(state[layout.HITS]),
            external_queries=int(state[layout.EXTERNAL_QUERIES]),
            external_hits=int(state[layout.EXTERNAL_HITS]),
            preemptions=int(state[layout.PREEMPTIONS]),
            steps=int(state[layout.STEPS]),
        )

    @property
    def free_blocks(self) -> int:
        return int(self._core.state[layout.FREE])

    @property
    def held_blocks(self) -> int:
        return self.config.blocks - 1 - self.free_blocks

    def slow(self, factor: float, now: float) -> None:
        """Take `factor` times as long as the profile says, from the next step on."""
        self._settle(now)
        self._core.clock[layout.OVERHEAD :] = layout.costs_of(self._profile.scaled(factor))
        self._look_at = _UNKNOWN

    def die(self, reason: str, now: float) -> None:
        """Stop for good, in the middle of a step."""
        self._settle(now)
        if not self._dead:
            self._dead = True
            self._events.append(EngineDied(now, reason))

    # Inside.

    def _settle(self, now: float) -> None:
        """Do everything that is due by `now`, in order of time."""
        if now < self._now:
            raise ValueError(f"time went back from {self._now} to {now}")
        while self._arriving and self._arriving[0][0] <= now and not self._dead:
            at, _, request_id = heapq.heappop(self._arriving)
            self._run(at, at)
            self._core.clock[layout.NOW] = at
            row = self._row_of.get(request_id)
            if row is not None and self._phase(row) == layout.PULLING:
                take_in(self._core, row)
        self._run(now, math.inf)
        self._now = self._core.clock[layout.NOW] = now

    def _run(self, until: float, hold_at: float) -> None:
        while not self._dead:
            self._look_at = answer = advance(*self._core, until, hold_at)
            if answer >= 0:
                return
            self._listen(changed=answer == HAS_CHANGED)

    def _listen(self, *, changed: bool) -> None:
        """Take what the kernels have said and changed; the order within one moment means nothing."""
        core = self._core
        count = core.state.item(layout.SAID)
        core.state[layout.SAID] = 0
        for kind, row in core.said[:count].tolist():
            self._events.append(self._event(kind, row, core.times.item(row, kind)))
            if self._dead:
                return
        if changed:
            self._tell_changes()

    def _tell_changes(self) -> None:
        """Announce which keys have come and gone."""
        core, state = self._core, self._core.state
        came, went = (
            core.changes[row, : state[count]].view(np.uint64).copy()
            for row, count in ((layout.CAME, layout.STORED), (layout.WENT, layout.GONE))
        )
        state[layout.STORED] = state[layout.GONE] = 0
        state[layout.ROUND] += 1
        if self.config.cache_events:
            self._events.append(KeysChanged(core.clock.item(layout.NOW), came, went))

    def _event(self, kind: int, row: int, at: float) -> Event:
        request = self._request(row)
        if kind == layout.SAYS_FIRST:
            return Tokens(request.request_id, _WORD, (at,))
        if kind == layout.SAYS_FINISHED:
            return self._finished(row, request, at)
        if kind == layout.SAYS_PULL:
            return self._pull(row, request, at)
        self._dead = True
        return EngineDied(at, f"transfer of {request.request_id}: the producer offers fewer blocks than are wanted")

    def _finished(self, row: int, request: EngineRequest, at: float) -> Finished:
        stats = self._stats(row, at)
        held = None
        if request.hold:
            held = (self._held(row),)
        else:
            self._free(row)
        return Finished(at, request.request_id, FinishReason.LENGTH, None, stats, held)

    def _pull(self, row: int, request: EngineRequest, at: float) -> PullWanted:
        source, tokens = request.source, int(self._core.rows[row, layout.EXTERNAL])
        if source is None:
            raise RuntimeError(f"request {request.request_id!r} has no source to pull from")
        wanted = -(-tokens // self.config.block_size)
        return PullWanted(at, request.request_id, source, (source.block_ids[0][-wanted:],), tokens)

    # Rows.

    def _enter(self, request: EngineRequest, outline: Outline, full: int, now: float) -> None:
        hashes = np.asarray(outline.hashes, np.uint64).view(np.int64)
        size = self.config.block_size
        if hashes.shape[0] < (full - 1) // size:
            raise ValueError(f"outline.hashes: {hashes.shape[0]} for {full} tokens; name each of {size} tokens")
        if not self._free_rows:
            self._make_rows()
        spanned = -(-full // size)
        if self._end + spanned > self._core.spans.shape[1]:
            self._core, self._end = layout.packed(self._core, spanned)
        row = self._free_rows.pop()
        self._row_of[request.request_id] = row
        self._requests[row] = request
        enter(
            self._core, row, self._end, outline.tokens, full, hashes, _offered(request.source), int(request.hold), now
        )
        self._end += spanned
        self._look_at = _UNKNOWN

    def _make_rows(self) -> None:
        known = len(self._requests)
        self._core = layout.with_rows(self._core)
        self._requests += [None] * known
        self._free_rows = list(range(2 * known - 1, known - 1, -1))

    def _drop(self, row: int) -> None:
        drop(self._core, row)
        self._free(row)
        self._look_at = _UNKNOWN

    def _free(self, row: int) -> None:
        del self._row_of[self._request(row).request_id]
        self._core.rows[row, layout.PHASE] = layout.ABSENT
        self._requests[row] = None
        self._free_rows.append(row)

    def _request(self, row: int) -> EngineRequest:
        request = self._requests[row]
        if request is None:
            raise RuntimeError(f"row {row} has no request")
        return request

    def _phase(self, row: int) -> int:
        return self._core.rows.item(row, layout.PHASE)

    def _held(self, row: int) -> tuple[int, ...]:
        begin, count = self._core.rows[row, layout.SPAN], self._core.rows[row, layout.HELD]
        return tuple(self._core.spans[layout.TABLE, begin : begin + count].tolist())

    def _stats(self, row: int, at: float) -> RequestStats:
        numbers, times = self._core.rows[row].tolist(), self._core.times[row].tolist()
        return RequestStats(
            prompt_tokens=numbers[layout.PROMPT],
            local_cached=max(0, numbers[layout.LOCAL]),
            external_cached=numbers[layout.EXTERNAL],
            output_tokens=numbers[layout.LENGTH] - numbers[layout.PROMPT],
            preemptions=numbers[layout.PREEMPTED],
            submitted_at=times[layout.SUBMITTED],
            scheduled_at=times[layout.SCHEDULED],
            first_token_at=times[layout.SAYS_FIRST],
            finished_at=at,
        )


def _offered(source: RemoteSource | None) -> int:
    """Count the blocks that a producer offers; -1: there is none."""
    if source is None:
        return -1
    return len(source.block_ids[0]) if len(source.block_ids) == 1 else 0
