"""The simulated engine's core: continuous batching in virtual time, without I/O.

The problem: tests, planner and simulator need an engine that schedules, caches, preempts and hands over like a real one,
at any speed, and whose output shows whether the KV was right.
The idea: a state machine driven by five calls that carry the time.  Work is a *run* of one or more steps.  A run of
several steps is planned when every step would be the same plain decode; any call that could change the schedule settles
the steps that are over, keeps the one in flight and drops the rest of the plan.
The trade-off: KV contents are written when a step is scheduled, not when it ends; nobody can look in between.
The invariant: with `exact` on or off, the same calls give the same tokens at the same times, the same cache events in the
same order and the same blocks.
"""

import heapq
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto

import numpy as np

from inferplane_engine.sim.cache import Contents, Hit, KvCache
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
    PullWanted,
    RemoteSource,
    RequestStats,
    Tokens,
)
from inferplane_engine.sim.sequence import Damage, Phase, Sequence, Writer
from inferplane_engine.timing import TimingProfile, attention_pairs, decode_step_s, step_s, transfer_s

_LOOK_AHEAD_TOKENS = 256
"""Longest run that is planned while tokens are computed: what is said beyond a run's end is kept, but not for free."""
_LOOK_AHEAD_STEPS = 4096


class _TimerKind(Enum):
    LEASE = auto()
    PULLED = auto()


@dataclass(slots=True)
class _Run:
    """Steps in flight: the first `done` are over, one more is scheduled, the others are planned."""

    sequences: list[Sequence]
    ends: list[float]
    done: int = 0

    @property
    def ends_at(self) -> float:
        return self.ends[-1]


@dataclass(slots=True)
class _Counters:
    prefix_queries: int = 0
    prefix_hits: int = 0
    external_queries: int = 0
    external_hits: int = 0
    preemptions: int = 0
    steps: int = 0


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
        self.config = config
        self._normal = self._profile = profile
        self._vocabulary = vocabulary
        self._damage = Damage() if damage is None else damage
        self._cache = KvCache(config, self._damage)
        self._now = 0.0
        self._run: _Run | None = None
        self._stalled = True
        self._sequences: dict[str, Sequence] = {}
        self._waiting: deque[Sequence] = deque()
        self._ready: deque[Sequence] = deque()
        self._running: list[Sequence] = []
        self._leases: dict[str, tuple[float, Sequence]] = {}
        self._timers: list[tuple[float, int, _TimerKind, str]] = []
        self._timer_count = 0
        self._arrived: dict[str, Contents] = {}
        self._events: list[Event] = []
        self._counters = _Counters()
        self._dead = False
        self._hung = False

    # What a driver calls -------------------------------------------------------------------------------------------

    def submit(self, request: EngineRequest, now: float) -> None:
        """Queue a request; it joins the next step."""
        if request.request_id in self._sequences or request.request_id in self._leases:
            raise ValueError(f"request {request.request_id!r} is already here")
        room = self.config.max_model_len - len(request.prompt)
        if not request.prompt or room < 1:
            raise ValueError(
                f"a prompt has 1 to {self.config.max_model_len - 1} tokens (max_model_len - 1), not {len(request.prompt)}"
            )
        if request.max_tokens < 1:
            raise ValueError(f"max_tokens is at least 1, not {request.max_tokens}")
        self._interrupt(now)
        sequence = Sequence(request, min(request.max_tokens, room), now, len(self.config.groups))
        self._sequences[request.request_id] = sequence
        self._waiting.append(sequence)

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
        """Earliest time at which something will happen by itself; None: never."""
        if self._events:
            return self._now
        return self._next_internal()

    # Hand-off, consumer's side -------------------------------------------------------------------------------------

    def pulled(self, request_id: str, contents: Contents, now: float) -> None:
        """Contents of the blocks of `PullWanted` are here; they count once the link has had its time."""
        self._interrupt(now)
        sequence = self._sequences.get(request_id)
        if sequence is None or sequence.phase is not Phase.PULLING or request_id in self._arrived:
            return
        self._arrived[request_id] = contents
        moved = sequence.prompt_length - sequence.computed
        arrives_at = sequence.pull_started_at + transfer_s(self._profile, tokens=float(moved))
        self._start_timer(max(now, arrives_at), _TimerKind.PULLED, request_id)

    def pull_failed(self, request_id: str, now: float, detail: str) -> None:
        """The producer could not be reached, or went away."""
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
        self._waiting.appendleft(sequence)

    # Hand-off, producer's side -------------------------------------------------------------------------------------

    def read(self, request_id: str, blocks: tuple[tuple[int, ...], ...], now: float) -> Contents | None:
        """Contents for a consumer; None: this request is not held, or not in these blocks (stale or forged)."""
        self._interrupt(now)
        lease = self._leases.get(request_id)
        if lease is None:
            return None
        held = self._held_blocks(lease[1])
        if len(blocks) != len(held) or any(
            not _is_tail(wanted, having) for wanted, having in zip(blocks, held, strict=True)
        ):
            return None
        return self._cache.read(blocks)

    def confirm(self, request_id: str, now: float) -> None:
        """The consumer has everything, or does not want it: free the blocks."""
        self._interrupt(now)
        self._end_lease(request_id, now, expired=False)

    def renew(self, request_ids: Iterable[str], now: float) -> None:
        """Heartbeat of a consumer that still waits: its leases last two thirds of a lease from now."""
        self._interrupt(now)
        for request_id in request_ids:
            lease = self._leases.get(request_id)
            if lease is None:
                continue
            until = max(lease[0], now + self.config.lease_s * 2 / 3)
            self._leases[request_id] = (until, lease[1])
            self._start_timer(until, _TimerKind.LEASE, request_id)

    # Looking in ----------------------------------------------------------------------------------------------------

    def reset_prefix_cache(self, now: float) -> bool:
        """Forget the cache; refused while a request holds blocks.  The event goes out with the next step, as vLLM's."""
        self._interrupt(now)
        return self._cache.pool.clear()

    def gauges(self) -> Gauges:
        counters = self._counters
        pulling = sum(sequence.phase is Phase.PULLING for sequence in self._sequences.values())
        return Gauges(
            running=len(self._running),
            waiting=len(self._waiting) + len(self._ready) + pulling,
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
        """(hash, group) -> copies: what the events should add up to."""
        return self._cache.pool.cached_keys()

    def hang(self, now: float) -> None:
        """Never step again; requests are still taken."""
        self._interrupt(now)
        self._hung = True

    def wake(self, now: float) -> None:
        """End a hang."""
        self._hung = False
        self._now = max(self._now, now)
        if self._run is not None:
            self._drop_plan()
            self._run.ends = [max(end, now) for end in self._run.ends]

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

    # Time ----------------------------------------------------------------------------------------------------------

    def _next_internal(self) -> float | None:
        if self._dead or self._hung:
            return None
        times = [self._timers[0][0]] if self._timers else []
        if self._run is not None:
            times.append(self._run.ends_at)
        elif not self._stalled and (self._waiting or self._ready or self._running):
            times.append(self._now)
        return min(times, default=None)

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
        if self._run is not None and not (self._dead or self._hung):
            self._catch_up(now)
        self._now = now

    def _interrupt(self, now: float) -> None:
        """Settle, then drop what was only planned: the caller is about to change the schedule."""
        self._settle(now)
        self._drop_plan()
        self._stalled = False

    def _drop_plan(self) -> None:
        if self._run is not None:
            del self._run.ends[self._run.done + 1 :]

    def _start_timer(self, at: float, kind: _TimerKind, request_id: str) -> None:
        self._timer_count += 1
        heapq.heappush(self._timers, (at, self._timer_count, kind, request_id))

    def _fire(self, timer: tuple[float, int, _TimerKind, str]) -> None:
        at, _, kind, request_id = timer
        if self._run is not None:
            self._catch_up(at)
            self._drop_plan()
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
        """A transfer is complete: only the last token is left to compute."""
        length = sequence.prompt_length
        self._cache.accept_external(sequence, contents, length)
        sequence.computed = length - 1
        sequence.phase = Phase.WAITING
        self._ready.append(sequence)

    # Scheduling ----------------------------------------------------------------------------------------------------

    def _start_step(self) -> None:
        scheduled = self._schedule()
        if not scheduled:
            self._stalled = True
            self._flush(self._now)
            return
        self._counters.steps += 1
        duration = self._duration(scheduled)
        self._run = _Run([sequence for sequence, _ in scheduled], [self._now + duration])
        if not self.config.exact:
            self._plan(scheduled)

    def _schedule(self) -> list[tuple[Sequence, int]]:
        """Choose the next step's work as vLLM does: running requests first, then ready ones, then new ones."""
        budget = self.config.max_num_batched_tokens
        scheduled: list[tuple[Sequence, int]] = []
        preempted = False
        index = 0
        while index < len(self._running) and budget > 0:
            sequence = self._running[index]
            new = min(len(sequence.tokens) - sequence.computed, budget)
            self._cache.drop_outside_window(sequence)
            slots = sequence.computed + new + self._draft_tokens(sequence, new)
            while self._cache.needed(sequence, slots) > self._cache.pool.free:
                preempted = True
                victim = self._running.pop()
                self._preempt(victim)
                if victim is sequence:
                    break
            if sequence.phase is not Phase.RUNNING:
                break
            self._place(sequence, new, slots)
            scheduled.append((sequence, new))
            budget -= new
            index += 1
        if not preempted:
            self._admit_waiting(scheduled, budget)
        return scheduled

    def _draft_tokens(self, sequence: Sequence, new: int) -> int:
        """Speculated tokens that need a place in this step."""
        speculation = self.config.speculation
        if speculation is None or sequence.outputs == 0 or sequence.computed + new < len(sequence.tokens):
            return 0
        return min(speculation.tokens, self.config.max_model_len - len(sequence.tokens))

    def _place(self, sequence: Sequence, new: int, slots: int) -> None:
        self._cache.grow(sequence, slots)
        sequence.computed += new
        self._cache.commit(sequence, sequence.computed)

    def _preempt(self, victim: Sequence) -> None:
        self._cache.release(victim)
        victim.phase = Phase.WAITING
        victim.preemptions += 1
        self._counters.preemptions += 1
        self._waiting.appendleft(victim)

    def _admit_waiting(self, scheduled: list[tuple[Sequence, int]], budget: int) -> None:
        while budget > 0 and len(self._running) < self.config.max_num_seqs:
            if self._ready:
                new = self._admit_ready(self._ready[0], budget)
                queue = self._ready
            elif self._waiting:
                new = self._admit_new(self._waiting[0], budget)
                queue = self._waiting
            else:
                return
            if new is None:
                return
            sequence = queue.popleft()
            if sequence.phase is Phase.PULLING:
                continue
            self._start_running(sequence)
            scheduled.append((sequence, new))
            budget -= new

    def _start_running(self, sequence: Sequence) -> None:
        sequence.phase = Phase.RUNNING
        if sequence.scheduled_at != sequence.scheduled_at:  # NaN: the first time
            sequence.scheduled_at = self._now
        self._running.append(sequence)

    def _admit_ready(self, sequence: Sequence, budget: int) -> int | None:
        """A request whose transfer is complete."""
        new = min(len(sequence.tokens) - sequence.computed, budget)
        if self._cache.needed(sequence, sequence.computed + new) > self._cache.pool.free:
            return None
        self._place(sequence, new, sequence.computed + new)
        return new

    def _admit_new(self, sequence: Sequence, budget: int) -> int | None:
        """Tokens to compute now; None: it does not fit yet; 0: it waits for a transfer."""
        hit = self._cache.find(sequence)
        source = None if sequence.source_used else sequence.request.source
        if source is not None:
            return self._admit_pull(sequence, hit, source)
        free = self._cache.pool.free
        length = len(sequence.tokens)
        new = min(length - hit.tokens, budget)
        if (
            max(
                self._cache.needed(sequence, length, hit, whole=True),
                self._cache.needed(sequence, hit.tokens + new, hit),
            )
            > free
        ):
            return None
        self._count_hit(sequence, hit.tokens, external=0)
        self._cache.admit(sequence, hit)
        self._place(sequence, new, sequence.computed + new)
        return new

    def _admit_pull(self, sequence: Sequence, hit: Hit, source: RemoteSource) -> int | None:
        length = sequence.prompt_length
        reserved = sum(
            self._cache.needed(other, len(other.tokens))
            for other in self._running
            if other.computed < len(other.tokens)
        )
        if self._cache.needed(sequence, length, hit) > self._cache.pool.free - reserved:
            return None
        first = hit.tokens // self.config.block_size
        wanted = -(-length // self.config.block_size) - first
        if len(source.block_ids) != len(self.config.groups) or len(source.block_ids[0]) < wanted:
            self.die(
                f"transfer of {sequence.request.request_id}: the producer offers fewer blocks than are wanted",
                self._now,
            )
            return None
        sequence.source_used = True
        sequence.phase = Phase.PULLING
        sequence.pull_started_at = self._now
        self._count_hit(sequence, hit.tokens, external=length - hit.tokens)
        self._cache.admit(sequence, hit)
        self._cache.reserve_external(sequence, length)
        blocks = tuple(ids[-wanted:] for ids in source.block_ids)
        self._events.append(PullWanted(self._now, sequence.request.request_id, source, blocks, length - hit.tokens))
        return 0

    def _count_hit(self, sequence: Sequence, local: int, *, external: int) -> None:
        counters = self._counters
        counters.prefix_queries += len(sequence.tokens)
        counters.prefix_hits += local
        if external:
            counters.external_queries += len(sequence.tokens) - local
            counters.external_hits += external
        if sequence.local_cached < 0:
            sequence.local_cached = local
            sequence.external_cached = external

    def _duration(self, scheduled: list[tuple[Sequence, int]]) -> float:
        pairs = kv_tokens = 0.0
        tokens = 0
        for sequence, new in scheduled:
            draft = self._draft_tokens(sequence, 0) if sequence.computed == len(sequence.tokens) else 0
            tokens += new + draft
            if new == 1 and sequence.outputs:
                kv_tokens += sequence.computed
            else:
                pairs += attention_pairs(float(new), float(sequence.computed - new))
        return step_s(
            self._profile,
            tokens=float(tokens),
            prefill_pairs=pairs,
            decode_kv_tokens=kv_tokens,
            sequences=float(len(scheduled)),
        )

    # Runs ----------------------------------------------------------------------------------------------------------

    def _plan(self, scheduled: list[tuple[Sequence, int]]) -> None:
        """Lengthen a run while every step would be the same plain decode."""
        run = self._run
        if run is None or self.config.speculation is not None or len(self.config.groups) > 1:
            return
        if self._ready or (self._waiting and len(self._running) < self.config.max_num_seqs):
            return
        if len(scheduled) < len(self._running) or any(new != 1 or not sequence.outputs for sequence, new in scheduled):
            return
        steps = min(self._steps_until_end(run.sequences), self._steps_until_full(run.sequences))
        if steps < 2:  # noqa: PLR2004  nothing to gain
            return
        batch = len(run.sequences)
        first = float(sum(sequence.computed for sequence in run.sequences))
        later = first + batch * np.arange(1, steps, dtype=np.float64)
        durations = decode_step_s(self._profile, batch=np.full(steps - 1, float(batch)), kv_tokens=later)
        run.ends = np.cumsum(np.concatenate(([run.ends[0]], durations))).tolist()

    def _steps_until_end(self, sequences: list[Sequence]) -> int:
        """Steps up to and including the one that ends a sequence."""
        steps = min(sequence.max_tokens - sequence.outputs for sequence in sequences)
        if not self.config.content:
            return min(steps, _LOOK_AHEAD_STEPS)
        steps = min(steps, _LOOK_AHEAD_TOKENS)
        for sequence in sequences:
            writer = self._writer_of(sequence)
            writer.say(sequence.spoken + steps)
            steps = min(steps, len(writer.said) - sequence.spoken)
        return steps

    def _steps_until_full(self, sequences: list[Sequence]) -> int:
        """Steps for which the free blocks suffice without a preemption."""
        size = self.config.block_size
        takes = [0] * size
        for sequence in sequences:
            takes[-sequence.computed % size] += 1
        free = self._cache.pool.free
        steps = 1
        while steps < _LOOK_AHEAD_STEPS:
            free -= takes[(steps - 1) % size]
            if free < 0:
                break
            steps += 1
        return steps

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

    def _end_step(self, run: _Run) -> None:
        at = run.ends[0]
        self._run = None
        self._flush(at)
        for sequence in run.sequences:
            if sequence.phase is Phase.RUNNING and sequence.computed == len(sequence.tokens):
                self._sample(sequence, at)

    def _sample(self, sequence: Sequence, at: float) -> None:
        said = self._say(sequence)
        if sequence.first_token_at != sequence.first_token_at:  # NaN: the first time
            sequence.first_token_at = at
        sequence.tokens.extend(said)
        sequence.computed += len(said) - 1
        self._events.append(Tokens(sequence.request.request_id, tuple(said), (at,) * len(said)))
        self._end_if_over(sequence, at)

    def _say(self, sequence: Sequence) -> list[int]:
        """One token, and drafts as long as they are accepted."""
        if not self.config.content:
            return [self._vocabulary.words[0]]
        writer = self._writer_of(sequence)
        drafts = self._draft_tokens(sequence, 0)
        left = sequence.max_tokens - sequence.outputs
        count = 1
        speculation = self.config.speculation
        writer.say(sequence.spoken + 1)
        while speculation is not None and count <= drafts and count < left:
            last = writer.said[sequence.spoken + count - 1]
            if writer.ends(last) or not _accepted(writer.state, sequence.outputs + count, speculation.accept_rate):
                break
            count += 1
            writer.say(sequence.spoken + count)
        said = writer.said[sequence.spoken : sequence.spoken + count]
        sequence.spoken += len(said)
        return said

    def _writer_of(self, sequence: Sequence) -> Writer:
        if sequence.writer is None:
            request = sequence.request
            sequence.writer = Writer(
                vocabulary=self._vocabulary,
                block_size=self.config.block_size,
                state=sequence.state,
                tail=sequence.tokens[sequence.folded * self.config.block_size :],
                sample=request.sample,
                stop_tokens=request.stop_tokens,
                ignore_eos=request.ignore_eos,
                min_tokens=request.min_tokens,
                damage=self._damage,
                count=sequence.outputs,
                tail_extra=sequence.media_keys(sequence.folded),
            )
            sequence.spoken = 0
        return sequence.writer

    def _end_steps(self, run: _Run, over: int) -> None:
        """End steps `run.done` to `over` of a plain decode run at once; effects fall into their steps' order."""
        start, run.done = run.done, over
        count = over - start
        times = tuple(run.ends[start:over])
        for sequence in run.sequences:
            said = self._say_many(sequence, count)
            sequence.tokens.extend(said)
            self._events.append(Tokens(sequence.request.request_id, tuple(said), times))
        self._schedule_many(run, start, min(over, len(run.ends) - 1) - start)
        if over < len(run.ends):
            return
        self._run = None
        for sequence in run.sequences:
            self._end_if_over(sequence, times[-1])

    def _say_many(self, sequence: Sequence, count: int) -> list[int]:
        if not self.config.content:
            return [self._vocabulary.words[0]] * count
        said = self._writer_of(sequence).said[sequence.spoken : sequence.spoken + count]
        sequence.spoken += count
        return said

    def _schedule_many(self, run: _Run, start: int, count: int) -> None:
        """Schedule the `count` steps after step `start`: take a block where a token opens one, store the full ones."""
        size = self.config.block_size
        opens, fills = 0, 1
        work: list[tuple[int, int, int]] = []
        for order, sequence in enumerate(run.sequences):
            work.extend((step, order, opens) for step in range(1 + -sequence.computed % size, count + 1, size))
            work.extend((step, order, fills) for step in range(size - sequence.computed % size, count + 1, size))
        work.sort()
        before = [sequence.computed for sequence in run.sequences]
        self._flush(run.ends[start])
        current = 0
        for step, order, what in work:
            if step != current and current:
                self._flush(run.ends[start + current])
            current = step
            sequence = run.sequences[order]
            if what == opens:
                self._cache.grow(sequence, before[order] + step)
            else:
                self._cache.commit(sequence, before[order] + step)
        if current and start + current < run.done:
            self._flush(run.ends[start + current])
        self._counters.steps += count
        for sequence in run.sequences:
            sequence.computed += count

    # Ends ----------------------------------------------------------------------------------------------------------

    def _end_if_over(self, sequence: Sequence, at: float) -> None:
        last = sequence.tokens[-1]
        if self.config.content and self._writer_of(sequence).ends(last):
            self._finish(sequence, FinishReason.STOP, at)
        elif sequence.outputs >= sequence.max_tokens:
            self._finish(sequence, FinishReason.LENGTH, at)

    def _finish(self, sequence: Sequence, reason: FinishReason, at: float, detail: str = "") -> None:
        request = sequence.request
        last = sequence.tokens[-1]
        stop_token = last if reason is FinishReason.STOP and last != self._vocabulary.eos else None
        held = self._hold(sequence, at) if request.hold and reason in (FinishReason.STOP, FinishReason.LENGTH) else None
        self._forget(sequence)
        if held is None:
            self._cache.release(sequence)
        stats = RequestStats(
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
        self._events.append(Finished(at, request.request_id, reason, stop_token, stats, held, detail))

    def _forget(self, sequence: Sequence) -> None:
        if sequence.phase is Phase.RUNNING:
            self._running.remove(sequence)
        elif sequence in self._ready:
            self._ready.remove(sequence)
        elif sequence in self._waiting:
            self._waiting.remove(sequence)
        sequence.phase = Phase.FINISHED
        self._arrived.pop(sequence.request.request_id, None)
        del self._sequences[sequence.request.request_id]

    def _hold(self, sequence: Sequence, at: float) -> tuple[tuple[int, ...], ...]:
        """Keep a finished request's blocks for a consumer."""
        self._cache.write_tail(sequence)
        until = at + self.config.lease_s
        self._leases[sequence.request.request_id] = (until, sequence)
        self._start_timer(until, _TimerKind.LEASE, sequence.request.request_id)
        return self._held_blocks(sequence)

    def _held_blocks(self, sequence: Sequence) -> tuple[tuple[int, ...], ...]:
        """Block tables without the null blocks that a window leaves at the front."""
        return tuple(tuple(block for block in table if block) for table in sequence.tables)

    def _end_lease(self, request_id: str, at: float, *, expired: bool) -> None:
        lease = self._leases.pop(request_id, None)
        if lease is not None:
            self._cache.release(lease[1])
            self._events.append(LeaseEnded(at, request_id, expired))

    def _flush(self, at: float) -> None:
        events = self._cache.pool.take_events()
        if events:
            self._events.append(CacheChanged(at, events))


def _is_tail(wanted: tuple[int, ...], held: tuple[int, ...]) -> bool:
    return len(wanted) <= len(held) and held[len(held) - len(wanted) :] == wanted


def _accepted(state: int, draft: int, rate: float) -> bool:
    """Deterministic coin for a draft token."""
    return ((state ^ (draft * 0x9E3779B97F4A7C15)) >> 11) % 10_000 < rate * 10_000
