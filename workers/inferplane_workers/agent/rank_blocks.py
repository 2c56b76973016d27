"""One rank's blocks, kept from its engine's events, with a word on how far they can be trusted.

Problem: events get lost, engines restart, and an engine cannot be asked what it holds.  Idea: the sequencer says what
is missing; a loss that replay cannot close empties the map (a stale block is worse than a missing one) and marks the
rank suspect until the engine's cache is known again: after a restart or a reset of its prefix cache.
Invariant: while the rank is not suspect, its map equals the engine's cache up to events still on their way.
"""

from collections.abc import Callable, Iterable
from typing import Protocol

import msgspec

from inferplane_engine.identity import Adapter, KeySpace
from inferplane_engine.kv_events import (
    AllBlocksCleared,
    BatchError,
    BlockMap,
    EventBatch,
    EventDecoder,
    PlaneChange,
    SavedMap,
    Sequencer,
    Step,
)
from inferplane_workers.agent.wire import PlaneKey

_SEQUENCE_BYTES = 8


class BlockListener(Protocol):
    """Hears what became of one rank's blocks."""

    def changed(self, dp_rank: int, changes: Iterable[PlaneChange]) -> None: ...

    def voided(self, dp_rank: int, reason: str) -> None:
        """All that was said of this rank's blocks is void; a snapshot says what is left."""
        ...

    def trusted(self, dp_rank: int, *, trusted: bool, reason: str) -> None: ...

    def lost(self, dp_rank: int, batches: int) -> None: ...

    def problem(self, dp_rank: int, name: str, count: int) -> None: ...


class Saved(msgspec.Struct, frozen=True):
    """What survives a restart of the agent while its engine runs on."""

    engine_start: str
    model: str
    model_revision: str
    block_size: int
    expected: int
    last_ts: float
    suspect: bool
    blocks: SavedMap


class RankBlocks:
    """Sequencer, decoder and map of one rank; told of frames, it says whether to ask for a replay."""

    def __init__(
        self,
        dp_rank: int,
        key_space: KeySpace,
        *,
        adapters: Callable[[str], Adapter],
        listener: BlockListener,
    ) -> None:
        self.dp_rank = dp_rank
        self._key_space = key_space
        self._listener = listener
        self._decoder = EventDecoder()
        self._sequencer: Sequencer[EventBatch] = Sequencer()
        self._map = BlockMap(key_space, adapter=adapters)
        self._seen: set[PlaneKey] = set()
        self.suspect = False

    @property
    def expected(self) -> int:
        return self._sequencer.expected

    @property
    def blocks(self) -> int:
        return self._map.blocks

    @property
    def hybrid(self) -> bool:
        return self._map.hybrid

    def begin(self) -> int | None:
        return self._do(self._sequencer.begin())

    def engine_restarted(self) -> int | None:
        return self._do(self._sequencer.restart())

    def live(self, sequence: bytes, payload: bytes) -> int | None:
        """Take a batch from the subscription; return where to ask for a replay, or None."""
        batch = self._decode(payload)
        if batch is None or len(sequence) != _SEQUENCE_BYTES:
            return None
        return self._do(self._sequencer.live(int.from_bytes(sequence, "big"), batch.ts, batch))

    def replayed(self, sequence: bytes, payload: bytes) -> None:
        batch = self._decode(payload)
        if batch is not None and len(sequence) == _SEQUENCE_BYTES:
            self._do(self._sequencer.replayed(int.from_bytes(sequence, "big"), batch.ts, batch))

    def replay_ended(self) -> int | None:
        return self._do(self._sequencer.replay_ended())

    def planes(self) -> Iterable[tuple[PlaneKey, bytes]]:
        """Every plane that ever had a block, whole."""
        sets = {PlaneKey(self.dp_rank, int(plane)): hashes for plane, hashes in self._map.snapshot().items()}
        self._seen.update(sets)
        for key in sorted(self._seen):
            yield key, sets[key].tobytes() if key in sets else b""

    def save(self, engine_start: str) -> Saved:
        space, sequencer = self._key_space, self._sequencer
        return Saved(
            engine_start=engine_start,
            model=space.model,
            model_revision=space.model_revision,
            block_size=space.block_size,
            expected=sequencer.expected,
            last_ts=sequencer.last_ts,
            suspect=self.suspect,
            blocks=self._map.save(),
        )

    def restore(self, saved: Saved) -> bool:
        """Go on where another agent process stopped, if it watched the same blocks.  Raises SavedMapError."""
        if KeySpace(saved.model, saved.model_revision, saved.block_size) != self._key_space:
            return False
        self._map.restore(saved.blocks)
        self._sequencer.resume(saved.expected, saved.last_ts)
        self.suspect = saved.suspect
        return True

    def _decode(self, payload: bytes) -> EventBatch | None:
        try:
            return self._decoder.decode(payload)
        except BatchError as error:
            self._doubt(str(error))
            self._listener.problem(self.dp_rank, "undecodable batch", 1)
            return None

    def _do(self, step: Step[EventBatch]) -> int | None:
        if step.restarted:
            self._forget("the engine started anew")
            self._trust("the engine started anew")
        if step.lost:
            batches = sum(len(numbers) for numbers in step.lost)
            reason = f"{batches} event batches from number {step.lost[0].start} on are lost"
            self._listener.lost(self.dp_rank, batches)
            self._forget(reason)
            self._doubt(reason)
        for batch in step.deliver:
            self._apply(batch)
        return step.replay_from

    def _apply(self, batch: EventBatch) -> None:
        problems = self._map.apply(batch.events)
        cleared = any(isinstance(event, AllBlocksCleared) for event in batch.events)
        if cleared and self.suspect:
            self._trust("the engine emptied its cache")
        for problem, count in problems.items():
            self._listener.problem(self.dp_rank, str(problem), count)
            if not self.suspect and not cleared:
                self._doubt(f"events do not fit together: {problem}")
        changes = self._map.take()
        if changes:
            self._seen.update(PlaneKey(self.dp_rank, int(change.plane)) for change in changes)
            self._listener.changed(self.dp_rank, changes)

    def _forget(self, reason: str) -> None:
        self._map.clear()
        self._map.take()
        self._listener.voided(self.dp_rank, reason)

    def _doubt(self, reason: str) -> None:
        if not self.suspect:
            self.suspect = True
            self._listener.trusted(self.dp_rank, trusted=False, reason=reason)

    def _trust(self, reason: str) -> None:
        if self.suspect:
            self.suspect = False
            self._listener.trusted(self.dp_rank, trusted=True, reason=reason)
