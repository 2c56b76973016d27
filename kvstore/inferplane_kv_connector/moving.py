"""Moving blocks between the engine's memory and the store: the worker's half.

Problem: neither a slow store nor a full one may delay a step, and nothing may touch a block that the engine uses for
something else by then.
Idea: saving copies blocks out inside the step, which is a copy in memory, and hands them to a thread; loading runs in
another thread, into blocks that the engine keeps free until it is told that they are filled.  What is saved waits in a
bounded queue; what does not fit is dropped and counted.
Trade-off: the copies of one step cost memory until they are stored, on an accelerator its own.
Invariant: every block of a load is either filled with bytes whose checksum was right, or reported as failed.
"""

import logging
import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Final

from inferplane_kv_connector.client import Held, StoreClient
from inferplane_kv_connector.envelope import Label, check, seal
from inferplane_kv_connector.planning import Move, Save
from inferplane_kv_connector.records import Records

torch: Any = import_module("torch")

BATCH: Final = 16
"""Blocks that are asked for together."""
_log = logging.getLogger("vllm.inferplane_kv")


@dataclass(slots=True)
class Load:
    request: str
    moves: tuple[Move, ...]
    give_up_at: float
    """Seconds of the clock."""
    after: Any = None
    """Event of the accelerator that ends what used the blocks before."""
    failed: list[int] = field(default_factory=list[int])


@dataclass(slots=True)
class _Copied:
    """Blocks of one step, on their way out."""

    labels: tuple[Label, ...]
    parts: list[Any]
    ready: Any
    """Event of the accelerator after which the parts are there; None: they are."""
    size: int


@dataclass(slots=True)
class Counts:
    loaded: int = 0
    missed: int = 0
    """Blocks that were there at the lookup and not at the load."""
    corrupt: int = 0
    saved: int = 0
    dropped: int = 0
    """Blocks not saved because the queue was full."""


@dataclass(slots=True)
class Mover:
    records: Records
    loading: StoreClient
    saving: StoreClient
    secret: bytes
    space: bytes
    """Which engines can read what is saved."""
    most_queued: int
    """Bytes on their way out, at most."""
    clock: Callable[[], float]
    counts: Counts = field(default_factory=Counts)
    _loads: "queue.Queue[Load | None]" = field(default_factory=queue.Queue["Load | None"], init=False)
    _saves: "queue.Queue[_Copied | None]" = field(default_factory=queue.Queue["_Copied | None"], init=False)
    _done: "queue.Queue[Load]" = field(default_factory=queue.Queue[Load], init=False)
    _copied: int = field(default=0, init=False)
    _stored: int = field(default=0, init=False)
    _threads: list[threading.Thread] = field(default_factory=list[threading.Thread], init=False)

    def start(self) -> None:
        for name, run in (("load", self._run_loads), ("save", self._run_saves)):
            thread = threading.Thread(target=run, name=f"inferplane-kv-{name}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def stop(self) -> None:
        """Finish what is queued."""
        self._loads.put(None)
        self._saves.put(None)
        for thread in self._threads:
            thread.join()
        self.loading.close()
        self.saving.close()

    def load(self, load: Load) -> None:
        load.after = _event(self.records.layers[0])
        self._loads.put(load)

    def take_finished(self) -> list[Load]:
        """Return the loads that have ended since the last call."""
        finished: list[Load] = []
        while not self._done.empty():
            finished.append(self._done.get())
        return finished

    def save(self, saves: Sequence[Save]) -> None:
        """Copy blocks out; called when the step's computation is submitted."""
        room = (self.most_queued - (self._copied - self._stored)) // self.records.record_bytes
        taken = list(saves[: max(0, room)])
        self.counts.dropped += len(saves) - len(taken)
        if not taken:
            return
        size = self.records.record_bytes
        labels = tuple(Label(each.key, each.owner, size, each.mark, self.space) for each in taken)
        parts = self.records.gather([each.block for each in taken])
        self._copied += size * len(taken)
        self._saves.put(_Copied(labels, parts, _event(parts[0]), size * len(taken)))

    def _run_loads(self) -> None:
        while (load := self._loads.get()) is not None:
            try:
                self._fill(load)
            except Exception:  # noqa: BLE001 - a thread's boundary: whatever it is, the engine computes these blocks itself
                _log.exception("loading failed")
                load.failed = [move.block for move in load.moves]
            self._done.put(load)

    def _fill(self, load: Load) -> None:
        if load.after is not None:
            load.after.synchronize()
        for start in range(0, len(load.moves), BATCH):
            moves = load.moves[start : start + BATCH]
            if load.failed or self.clock() > load.give_up_at:
                # What follows a missing block is worth nothing.
                load.failed += [move.block for move in moves]
                continue
            load.failed += self._fill_batch(moves)

    def _fill_batch(self, moves: Sequence[Move]) -> list[int]:
        held = self.loading.get([move.key for move in moves])
        good: list[tuple[Move, Held]] = []
        bad: list[bytes] = []
        for move, each in zip(moves, held, strict=True):
            if each is None:
                self.counts.missed += 1
            elif self._sound(move, each):
                good.append((move, each))
            else:
                bad.append(move.key)
        if good:
            self.records.scatter([each.payload for _, each in good], [move.block for move, _ in good])
        self.counts.loaded += len(good)
        self.counts.corrupt += len(bad)
        self.loading.release([each.label.key for each in held if each is not None], bad=bad)
        filled = {move.block for move, _ in good}
        return [move.block for move in moves if move.block not in filled]

    def _sound(self, move: Move, held: Held) -> bool:
        right = held.label.key == move.key and held.label.size == self.records.record_bytes
        return right and check(held.label, held.tag, held.payload, self.secret)

    def _run_saves(self) -> None:
        while (copied := self._saves.get()) is not None:
            try:
                self._store(copied)
            except Exception:  # noqa: BLE001 - a thread's boundary: these blocks are not stored, which is all
                _log.exception("saving failed")
                self.saving.abort([label.key for label in copied.labels])
            finally:
                self._stored += copied.size

    def _store(self, copied: _Copied) -> None:
        if copied.ready is not None:
            copied.ready.synchronize()
        wanted = self.saving.put(copied.labels)
        if not any(wanted):
            return
        parts = [part.cpu() for part in copied.parts]
        sealed: list[tuple[bytes, bytes]] = []
        for position, space in enumerate(wanted):
            if space is not None:
                self.records.write_record(parts, position, space.payload)
                sealed.append((space.label.key, seal(space.label, space.payload, self.secret)))
        self.saving.commit(sealed)
        self.counts.saved += len(sealed)


def _event(part: Any) -> Any:
    if part.device.type != "cuda":
        return None
    event = torch.cuda.Event()
    event.record()
    return event
