"""The simulated engine's core: continuous batching in virtual time, without I/O.

The problem: tests, planner and simulator need an engine that schedules, caches, preempts and hands over like a real
one, at any speed, and whose output shows whether the KV was right.
The idea: a state machine driven by calls that carry the time.  Work is a *run* of one or more steps.  A run of several
steps is planned when every step would be the same plain decode; any call that could change the schedule settles the
steps that are over, keeps the one in flight and drops the rest of the plan.
The trade-off: KV contents are written when a step is scheduled, not when it ends; nobody can look in between.
The invariant: with `exact` on or off, the same calls give the same tokens at the same times, the same cache events in
the same order and the same blocks.
"""

import heapq
import math
from bisect import bisect_right
from collections.abc import Iterable
from enum import Enum, auto

from inferplane_engine.sim.cache import Contents, KvCache
from inferplane_engine.sim.config import EngineConfig, LoadFailurePolicy
from inferplane_engine.sim.content import Vocabulary
from inferplane_engine.sim.events import (
    CacheChanged,
    EngineDied,
    EngineRequest,
    Event,
    Finished,
    FinishReason,
    Gauges,
    LeaseEnded,
    RequestStats,
    Tokens,
)
from inferplane_engine.sim.runs import Run, lengthen, schedule_many
from inferplane_engine.sim.scheduler import Scheduler
from inferplane_engine.sim.sequence import Damage, Phase, Sequence
from inferplane_engine.sim.voice import Voice
from inferplane_engine.timing import TimingProfile, transfer_s


class _TimerKind(Enum):
    LEASE = auto()
    PULLED = auto()


class SimEngine:
    """One engine core; a data-parallel engine has one for each rank."""

    def __init__(
        self,
        config: EngineConfig,
        profile: TimingProfile,
        vocabulary: Vocabulary,
        *,
        damage: Damage | None = None,
    ) -> None:
        damage = Damage() if damage is None else damage
        self.config = config
        self._normal = self._profile = profile
        self._voice = Voice(config, vocabulary, damage)
        self._cache = KvCache(config, damage)
        self._scheduler = Scheduler(config, self._cache, self._voice)
        self._now = 0.0
        self._run: Run | None = None
        self._stalled = True
        """Nothing could be scheduled, and nothing has changed since."""
        self._sequences: dict[str, Sequence] = {}
        self._leases: dict[str, tuple[float, Sequence]] = {}
        self._timers: list[tuple[float, int, _TimerKind, str]] = []
        self._timer_count = 0
        self._arrived: dict[str, Contents] = {}
        self._events: list[Event] = []
        self._dead = False
        self._hung = False

    # What a driver calls.

    def submit(self, request: EngineRequest, now: float) -> None:
        """Queue a request; it joins the next step."""
        if request.request_id in self._sequences or request.request_id in self._leases:
            raise ValueError(f"request {request.request_id!r} is already here")
        room = self.config.max_model_len - request.prompt_tokens
        if request.prompt_tokens < 1 or room < 1:
            raise ValueError(
                f"a prompt has 1 to {self.config.max_model_len - 1} tokens (max_model_len - 1), "
                f"not {request.prompt_tokens}"
            )
        if request.outline is not None and (self.config.content or request.prompt):
            raise ValueError("outline: only without contents, and in place of the prompt")
        if request.max_tokens < 1:
            raise ValueError(f"max_tokens is at least 1, not {request.max_tokens}")
        self._interrupt(now)
        sequence = Sequence(request, min(request.max_tokens, room), now, len(self.config.groups))
        self._sequences[request.request_id] = sequence
        self._scheduler.waiting.append(sequence)

    def abort(self, request_id: str, now: float) -> None:
        """Drop a request wherever it is; unknown ids are ignored, because an answer may just have ended."""
        self._interrupt(now)
        sequence = self._sequences.get(request_id)
        if sequence is not None:
            self._finish(sequence, FinishReason.ABORT, now)

    def advance(self, now: float) -> list[Event]:
        """Let time pass until `now` and return what happened."""
        self._settle(now)
        events, self._events = self._events, []
        return events

    def next_event_at(self) -> float | None:
        """Return the earliest time at which something will happen by itself; None: never."""
        if self._events:
            return self._now
        return self._next_internal()

    # Hand-off, the consumer's side.

    def pulled(self, request_id: str, contents: Contents, now: float) -> None:
        """Accept the contents of the blocks of `PullWanted`; they count once the link has had its time."""
        self._interrupt(now)
        sequence = self._sequences.get(request_id)
        if sequence is None or sequence.phase is not Phase.PULLING or request_id in self._arrived:
            return
        self._arrived[request_id] = contents
        moved = sequence.prompt_length - sequence.computed
        arrives_at = sequence.pull_started_at + transfer_s(self._profile, tokens=float(moved))
        self._start_timer(max(now, arrives_at), _TimerKind.PULLED, request_id)

    def pull_failed(self, request_id: str, now: float, detail: str) -> None:
        """Learn that the producer could not be reached, or went away."""
        self._interrupt(now)
        sequence = self._sequences.get(request_id)
        if sequence is None or sequence.phase is not Phase.PULLING:
            return
        if self.config.load_failure is LoadFailurePolicy.FAIL:
            self._finish(sequence, FinishReason.ERROR, now, detail)
            return
        self._cache.release(sequence)
        sequence.phase = Phase.WAITING
        sequence.external_cached = 0
        self._scheduler.waiting.push(sequence)

    # Hand-off, the producer's side.

    def read(self, request_id: str, blocks: tuple[tuple[int, ...], ...], now: float) -> Contents | None:
        """Return contents for a consumer; None: not held for this request, or not in these blocks (stale or forged)."""
        self._interrupt(now)
        lease = self._leases.get(request_id)
        if lease is None:
            return None
        held = _held_blocks(lease[1])
        if len(blocks) != len(held):
            return None
        if not all(_is_tail(wanted, having) for wanted, having in zip(blocks, held, strict=True)):
            return None
        return self._cache.read(blocks)

    def confirm(self, request_id: str, now: float) -> None:
        """Free a request's blocks: the consumer has everything, or does not want it."""
        self._interrupt(now)
        self._end_lease(request_id, now, expired=False)

    def renew(self, request_ids: Iterable[str], now: float) -> None:
        """Take a waiting consumer's heartbeat: its leases last two thirds of a lease from now."""
        self._interrupt(now)
        for request_id in request_ids:
            lease = self._leases.get(request_id)
            if lease is None:
                continue
            until = max(lease[0], now + self.config.lease_s * 2 / 3)
            self._leases[request_id] = (until, lease[1])
            self._start_timer(until, _TimerKind.LEASE, request_id)

    # Looking in, and breaking.

    def reset_prefix_cache(self, now: float) -> bool:
        """Forget the cache; refused while a request holds blocks.  The event goes out with the next step, as vLLM's."""
        self._interrupt(now)
        return self._cache.pool.clear()

    def gauges(self) -> Gauges:
        scheduler, counters = self._scheduler, self._scheduler.counters
        pulling = sum(sequence.phase is Phase.PULLING for sequence in self._sequences.values())
        return Gauges(
            running=len(scheduler.running),
            waiting=len(scheduler.waiting) + len(scheduler.ready) + pulling,
            waiting_for_transfer=pulling,
            kv_usage=self._cache.pool.usage,
            prefix_queries=counters.prefix_queries,
            prefix_hits=counters.prefix_hits,
            external_queries=counters.external_queries,
            external_hits=counters.external_hits,
            preemptions=counters.preemptions,
            steps=counters.steps,
        )

    @property
    def free_blocks(self) -> int:
        return self._cache.pool.free

    @property
    def held_blocks(self) -> int:
        return self._cache.pool.held

    def cached(self) -> dict[tuple[int, int], int]:
        """Return (hash, group) -> copies: what the events should add up to."""
        return self._cache.pool.cached_keys()

    def hang(self, now: float) -> None:
        """Never step again; requests are still taken."""
        self._interrupt(now)
        self._hung = True

    def wake(self, now: float) -> None:
        """End a hang; the step in flight ends now."""
        self._hung = False
        self._now = max(self._now, now)
        self._stalled = False
        if self._run is not None:
            self._run.drop_plan()
            self._run.ends = [max(end, self._now) for end in self._run.ends]

    def slow(self, factor: float, now: float) -> None:
        """Take `factor` times as long as the profile says, from the next step on."""
        self._interrupt(now)
        self._profile = self._normal.scaled(factor)

    def die(self, reason: str, now: float) -> None:
        """Stop for good."""
        if not self._dead:
            self._dead = True
            self._run = None
            self._events.append(EngineDied(now, reason))

    # Time.

    def _next_internal(self) -> float | None:
        if self._dead or self._hung:
            return None
        at = self._timers[0][0] if self._timers else math.inf
        if self._run is not None:
            at = min(at, self._run.ends_at)
        elif not self._stalled and not self._scheduler.idle:
            at = min(at, self._now)
        return None if at == math.inf else at

    def _settle(self, now: float) -> None:
        """Do everything that is due by `now`, in order of time."""
        if now < self._now:
            raise ValueError(f"time went back from {self._now} to {now}")
        while (at := self._next_internal()) is not None and at <= now:
            self._now = max(self._now, at)
            if self._timers and self._timers[0][0] <= at:
                self._fire(heapq.heappop(self._timers))
            elif self._run is not None:
                self._catch_up(at)
            else:
                self._start_step()
        if self._run is not None and not self._hung:
            self._catch_up(now)
        self._now = now

    def _interrupt(self, now: float) -> None:
        """Settle, then drop what was only planned: the caller is about to change the schedule."""
        self._settle(now)
        self._stalled = False
        if self._run is not None:
            self._run.drop_plan()

    def _start_timer(self, at: float, kind: _TimerKind, request_id: str) -> None:
        self._timer_count += 1
        heapq.heappush(self._timers, (at, self._timer_count, kind, request_id))

    def _fire(self, timer: tuple[float, int, _TimerKind, str]) -> None:
        at, _, kind, request_id = timer
        if self._run is not None:
            self._catch_up(at)
        if self._run is not None:
            self._run.drop_plan()
        self._stalled = False
        if kind is _TimerKind.LEASE:
            lease = self._leases.get(request_id)
            if lease is not None and lease[0] <= at:
                self._end_lease(request_id, at, expired=True)
            return
        contents = self._arrived.pop(request_id, None)
        sequence = self._sequences.get(request_id)
        if contents is not None and sequence is not None:
            self._take_in(sequence, contents)

    def _take_in(self, sequence: Sequence, contents: Contents) -> None:
        """Complete a transfer: only the last token is left to compute."""
        self._cache.accept_external(sequence, contents, sequence.prompt_length)
        sequence.computed = sequence.prompt_length - 1
        sequence.phase = Phase.WAITING
        self._scheduler.ready.append(sequence)

    # Steps.

    def _start_step(self) -> None:
        preempted = self._scheduler.counters.preemptions
        schedule = self._scheduler.schedule(self._now)
        self._events.extend(schedule.pulls)
        if schedule.fatal is not None:
            self.die(schedule.fatal, self._now)
            return
        if not schedule.sequences:
            self._stalled = self._scheduler.counters.preemptions == preempted  # else there is room now
            self._flush(self._now)
            return
        self._scheduler.counters.steps += 1
        run = self._run = Run(schedule.sequences, [self._now + schedule.duration_s(self._profile)])
        if not self.config.exact:
            lengthen(
                run,
                schedule,
                config=self.config,
                profile=self._profile,
                scheduler=self._scheduler,
                voice=self._voice,
                free=self._cache.pool.free,
            )

    def _catch_up(self, now: float) -> None:
        """End the steps of the run that are over by `now`, and schedule the one in flight."""
        run = self._run
        if run is None:
            return
        over = bisect_right(run.ends, now)
        if over == run.done:
            return
        if len(run.ends) == 1:
            self._end_step(run)
        else:
            self._end_steps(run, over)

    def _end_step(self, run: Run) -> None:
        at = run.ends[0]
        self._run = None
        self._flush(at)
        once = (at,)
        for sequence in run.sequences:
            if sequence.phase is not Phase.RUNNING or sequence.computed < sequence.length:
                continue
            said = self._voice.say(sequence)
            first = sequence.length == sequence.prompt_length
            if first:
                sequence.first_token_at = at
            self._extend(sequence, said)
            sequence.computed += len(said) - 1
            if first or self.config.every_token:
                self._events.append(Tokens(sequence.request.request_id, said, once * len(said)))
            if sequence.length >= sequence.full_length or self._voice.stopped(sequence):
                self._end(sequence, at)

    def _end_steps(self, run: Run, over: int) -> None:
        """End steps `run.done` to `over` of a plain decode run at once."""
        start, run.done = run.done, over
        # An aborted sequence has nothing to say; its plan was dropped, so no step after this one counts on it.
        run.sequences = [sequence for sequence in run.sequences if sequence.phase is Phase.RUNNING]
        times = tuple(run.ends[start:over])
        for sequence in run.sequences:
            said = self._voice.say_many(sequence, over - start)
            self._extend(sequence, said)
            if self.config.every_token:
                self._events.append(Tokens(sequence.request.request_id, said, times))
        count = min(over, len(run.ends) - 1) - start
        schedule_many(run, start, count, cache=self._cache, block_size=self.config.block_size, flush=self._flush)
        self._scheduler.counters.steps += count
        if over < len(run.ends):
            return
        self._run = None
        for sequence in run.sequences:
            if sequence.length >= sequence.full_length or self._voice.stopped(sequence):
                self._end(sequence, times[-1])

    def _extend(self, sequence: Sequence, said: tuple[int, ...]) -> None:
        sequence.length += len(said)
        if sequence.request.outline is None:
            sequence.tokens.extend(said)

    # Ends.

    def _end(self, sequence: Sequence, at: float) -> None:
        stopped = self._voice.stopped(sequence)
        self._finish(sequence, FinishReason.STOP if stopped else FinishReason.LENGTH, at)

    def _finish(self, sequence: Sequence, reason: FinishReason, at: float, detail: str = "") -> None:
        request = sequence.request
        complete = reason in (FinishReason.STOP, FinishReason.LENGTH)
        held = self._hold(sequence, at) if request.hold and complete else None
        self._scheduler.forget(sequence)
        sequence.phase = Phase.FINISHED
        self._arrived.pop(request.request_id, None)
        del self._sequences[request.request_id]
        if held is None:
            self._cache.release(sequence)
        stop_token = self._voice.stop_token(sequence) if reason is FinishReason.STOP else None
        self._events.append(Finished(at, request.request_id, reason, stop_token, _stats(sequence, at), held, detail))

    def _hold(self, sequence: Sequence, at: float) -> tuple[tuple[int, ...], ...]:
        """Keep a finished request's blocks for a consumer."""
        self._cache.write_tail(sequence)
        until = at + self.config.lease_s
        self._leases[sequence.request.request_id] = (until, sequence)
        self._start_timer(until, _TimerKind.LEASE, sequence.request.request_id)
        return _held_blocks(sequence)

    def _end_lease(self, request_id: str, at: float, *, expired: bool) -> None:
        lease = self._leases.pop(request_id, None)
        if lease is not None:
            self._cache.release(lease[1])
            self._events.append(LeaseEnded(at, request_id, expired))

    def _flush(self, at: float) -> None:
        events = self._cache.pool.take_events()
        if events:
            self._events.append(CacheChanged(at, events))


def _held_blocks(sequence: Sequence) -> tuple[tuple[int, ...], ...]:
    """Return block tables without the null blocks that a window leaves at the front."""
    return tuple(tuple(block for block in table if block) for table in sequence.tables)


def _is_tail(wanted: tuple[int, ...], held: tuple[int, ...]) -> bool:
    return len(wanted) <= len(held) and held[len(held) - len(wanted) :] == wanted


def _stats(sequence: Sequence, at: float) -> RequestStats:
    return RequestStats(
        prompt_tokens=sequence.prompt_length,
        local_cached=max(0, sequence.local_cached),
        external_cached=sequence.external_cached,
        output_tokens=sequence.outputs,
        preemptions=sequence.preemptions,
        submitted_at=sequence.submitted_at,
        scheduled_at=sequence.scheduled_at,
        first_token_at=sequence.first_token_at,
        finished_at=at,
    )
