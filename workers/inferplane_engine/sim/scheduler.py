"""What the next step computes: vLLM's order, budget, admission and preemption.

Running requests come first, in order of arrival; when blocks run out the youngest gives its own back and starts again
later.  Then come requests whose transfer is complete, then new ones, as long as tokens, places and blocks are left.
A request is admitted only if its whole prompt would fit, so that admission does not thrash.
"""

from dataclasses import dataclass, field

from inferplane_engine.sim.cache import Hit, KvCache
from inferplane_engine.sim.config import EngineConfig
from inferplane_engine.sim.events import PullWanted, RemoteSource
from inferplane_engine.sim.line import Line
from inferplane_engine.sim.sequence import Phase, Sequence
from inferplane_engine.sim.voice import Voice
from inferplane_engine.timing import TimingProfile, attention_pairs, step_s


@dataclass(slots=True)
class Schedule:
    """One step's sequences and what they cost, transfers to start, and what kills the engine."""

    sequences: list[Sequence] = field(default_factory=list[Sequence])
    pulls: list[PullWanted] = field(default_factory=list[PullWanted])
    fatal: str | None = None
    tokens: int = 0
    decodes: int = 0
    """Sequences that decode one token."""
    kv_tokens: int = 0
    """Tokens that those attend to, together."""
    prefill_pairs: float = 0.0

    def add(self, sequence: Sequence, new: int, drafts: int) -> None:
        """Count a sequence whose `new` tokens are placed."""
        self.sequences.append(sequence)
        self.tokens += new + drafts
        if new == 1 and sequence.outputs:
            self.decodes += 1
            self.kv_tokens += sequence.computed
        else:
            self.prefill_pairs += attention_pairs(float(new), float(sequence.computed - new))

    def duration_s(self, profile: TimingProfile) -> float:
        return step_s(
            profile,
            tokens=float(self.tokens),
            prefill_pairs=self.prefill_pairs,
            decode_kv_tokens=float(self.kv_tokens),
            sequences=float(len(self.sequences)),
        )


@dataclass(slots=True)
class Counters:
    """Sums since the start; tokens where not said otherwise."""

    prefix_queries: int = 0
    prefix_hits: int = 0
    external_queries: int = 0
    external_hits: int = 0
    preemptions: int = 0
    steps: int = 0


class Scheduler:
    """Queues of one core."""

    def __init__(self, config: EngineConfig, cache: KvCache, voice: Voice) -> None:
        self._config = config
        self._cache = cache
        self._voice = voice
        self._plain = config.speculation is None and len(config.groups) == 1
        self.waiting = Line()
        self.ready = Line()
        """Transfers that are complete: they hold blocks, so they go first."""
        self.running: list[Sequence] = []
        self.counters = Counters()

    @property
    def idle(self) -> bool:
        return not (self.waiting or self.ready or self.running)

    @property
    def closed(self) -> bool:
        """Tell whether nothing can be admitted however many blocks are free."""
        if self.ready:
            return False
        return not self.waiting or len(self.running) >= self._config.max_num_seqs

    def forget(self, sequence: Sequence) -> None:
        """Take a sequence out of its queue."""
        if sequence.phase is Phase.RUNNING:
            self.running.remove(sequence)
        else:
            self.ready.leave(sequence)
            self.waiting.leave(sequence)

    def schedule(self, now: float) -> Schedule:
        """Choose a step's work and take the blocks for it."""
        schedule = Schedule()
        budget, preempted = self._schedule_running(schedule)
        if not preempted:
            self._admit(schedule, budget, now)
        return schedule

    def _schedule_running(self, schedule: Schedule) -> tuple[int, bool]:
        budget = self._config.max_num_batched_tokens
        before = self.counters.preemptions
        size = self._config.block_size
        while len(schedule.sequences) < len(self.running) and budget > 0:
            sequence = self.running[len(schedule.sequences)]
            new = min(sequence.length - sequence.computed, budget)
            if self._plain and new == 1 and 0 < sequence.computed % size < size - 1:
                # Inside a block: nothing to take and nothing to store.
                sequence.computed += 1
                schedule.add(sequence, 1, 0)
                budget -= 1
                continue
            drafts = self._voice.draft_tokens(sequence, new)
            self._cache.drop_outside_window(sequence)
            if not self._make_room(sequence, sequence.computed + new + drafts):
                break
            self._place(schedule, sequence, new, drafts)
            budget -= new
        return budget, self.counters.preemptions > before

    def _make_room(self, sequence: Sequence, tokens: int) -> bool:
        """Preempt from the end until `tokens` fit; False: the sequence itself had to go."""
        while self._cache.needed(sequence, tokens) > self._cache.pool.free:
            victim = self.running.pop()
            self._cache.release(victim)
            victim.phase = Phase.WAITING
            victim.preemptions += 1
            self.counters.preemptions += 1
            self.waiting.push(victim)
            if victim is sequence:
                return False
        return True

    def _place(self, schedule: Schedule, sequence: Sequence, new: int, drafts: int = 0) -> None:
        """Take blocks, write contents, and put the sequence into the step."""
        self._cache.grow(sequence, sequence.computed + new + drafts)
        sequence.computed += new
        self._cache.commit(sequence, sequence.computed)
        schedule.add(sequence, new, drafts)

    def _admit(self, schedule: Schedule, budget: int, now: float) -> None:
        while budget > 0 and len(self.running) < self._config.max_num_seqs and schedule.fatal is None:
            if self.ready:
                queue = self.ready
                new = self._admit_ready(schedule, queue.first, budget)
            elif self.waiting:
                queue = self.waiting
                new = self._admit_new(schedule, queue.first, budget, now)
            else:
                return
            if new is None:
                return
            sequence = queue.take()
            if sequence.phase is Phase.PULLING:
                continue
            sequence.phase = Phase.RUNNING
            if sequence.scheduled_at != sequence.scheduled_at:
                sequence.scheduled_at = now
            self.running.append(sequence)
            budget -= new

    def _admit_ready(self, schedule: Schedule, sequence: Sequence, budget: int) -> int | None:
        new = min(sequence.length - sequence.computed, budget)
        if self._cache.needed(sequence, sequence.computed + new) > self._cache.pool.free:
            return None
        self._place(schedule, sequence, new)
        return new

    def _admit_new(self, schedule: Schedule, sequence: Sequence, budget: int, now: float) -> int | None:
        """Return the tokens to compute now; None: it does not fit yet; 0: it waits for a transfer."""
        hit = self._cache.find(sequence)
        source = None if sequence.source_used else sequence.request.source
        if source is not None:
            return self._admit_pull(schedule, sequence, hit, source, now)
        length = sequence.length
        new = min(length - hit.tokens, budget)
        whole = self._cache.needed(sequence, length, hit, whole=True)
        if max(whole, self._cache.needed(sequence, hit.tokens + new, hit)) > self._cache.pool.free:
            return None
        self._count_hit(sequence, hit.tokens, external=0)
        self._cache.admit(sequence, hit)
        self._place(schedule, sequence, new)
        return new

    def _admit_pull(
        self, schedule: Schedule, sequence: Sequence, hit: Hit, source: RemoteSource, now: float
    ) -> int | None:
        """Reserve blocks for a transfer, beside what running prefills still need."""
        length = sequence.prompt_length
        name = sequence.request.request_id
        unfinished = (other for other in self.running if other.computed < other.length)
        reserved = sum(self._cache.needed(other, other.length) for other in unfinished)
        if self._cache.needed(sequence, length, hit) > self._cache.pool.free - reserved:
            return None
        first = hit.tokens // self._config.block_size
        wanted = -(-length // self._config.block_size) - first
        if len(source.block_ids) != len(self._config.groups) or len(source.block_ids[0]) < wanted:
            schedule.fatal = f"transfer of {name}: the producer offers fewer blocks than are wanted"
            return None
        sequence.source_used = True
        sequence.phase = Phase.PULLING
        sequence.pull_started_at = now
        self._count_hit(sequence, hit.tokens, external=length - hit.tokens)
        self._cache.admit(sequence, hit)
        self._cache.reserve_external(sequence, length)
        blocks = tuple(ids[-wanted:] for ids in source.block_ids)
        schedule.pulls.append(PullWanted(now, name, source, blocks, length - hit.tokens))
        return 0

    def _count_hit(self, sequence: Sequence, local: int, *, external: int) -> None:
        counters = self.counters
        counters.prefix_queries += sequence.length
        counters.prefix_hits += local
        if external:
            counters.external_queries += sequence.length - local
            counters.external_hits += external
        if sequence.local_cached < 0:
            sequence.local_cached = local
            sequence.external_cached = external
