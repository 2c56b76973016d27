"""Order of event batches: gaps found, replays asked for, lost ranges and engine restarts reported.

Problem: a PUB socket drops what a slow or late subscriber does not read, replay is bounded and can be asked of the
engine at any time, and an engine that restarts begins at 0 again.  Idea: a pure state machine between the sockets and
the block map; live batches that arrive during a replay are held and joined with it by their numbers.
Trade-off: a restart and an overlap between replay and live batches both show as a low number; the batch's time stamp
tells them apart (an engine's batches never go back in time), so a clock stepped back by more than an engine's start
takes would be taken for an overlap; the agent's own knowledge of engine starts (`restart`) does not depend on it.
Invariant: batches are delivered in order, none twice, and every batch that is not delivered is in a reported `lost`.
"""

from collections import deque
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Step(Generic[T]):
    """What to do now, in this order: forget everything, note the loss, apply the batches, ask for a replay."""

    restarted: bool = False
    lost: tuple[range, ...] = ()
    """Numbers of batches that nobody has any more."""
    deliver: tuple[T, ...] = ()
    replay_from: int | None = None
    """Ask the engine's replay socket for everything from this number on."""


class Sequencer(Generic[T]):
    """One engine rank's batches; begins with a replay from 0, since an engine may have run for long."""

    def __init__(self, *, max_held: int = 20_000) -> None:
        self._max_held = max_held
        self._held: deque[tuple[int, float, T]] = deque()
        self._next = 0
        self._last_ts = float("-inf")
        self._replaying = False

    @property
    def expected(self) -> int:
        """Return the number of the next batch to deliver."""
        return self._next

    @property
    def replaying(self) -> bool:
        return self._replaying

    @property
    def last_ts(self) -> float:
        """Return the time of the last batch delivered."""
        return self._last_ts

    def resume(self, number: int, last_ts: float) -> None:
        """Go on where another process stopped; `begin` then asks for what came since."""
        self._forget()
        self._next, self._last_ts = number, last_ts

    def begin(self) -> Step[T]:
        """Ask for everything that the engine still has; call it when the sockets are connected."""
        return self._replay(restarted=False)

    def restart(self) -> Step[T]:
        """Forget everything: the engine is known to have started anew."""
        self._forget()
        return self._replay(restarted=True)

    def live(self, number: int, ts: float, batch: T) -> Step[T]:
        """Take a batch from the subscription."""
        if number < self._next and ts <= self._last_ts:
            return Step()  # already delivered by a replay
        if number < self._next:
            self._forget()
            return self._live_after_restart(number, ts, batch)
        if self._replaying:
            return self._hold(number, ts, batch)
        if number > self._next:
            self._held.append((number, ts, batch))
            return self._replay(restarted=False)
        return Step(deliver=(self._accept(number, ts, batch),))

    def replayed(self, number: int, ts: float, batch: T) -> Step[T]:
        """Take a batch from the replay that is under way."""
        if number < self._next or not self._replaying:
            return Step()
        lost = self._lost_before(number)
        return Step(lost=lost, deliver=(self._accept(number, ts, batch),))

    def replay_ended(self) -> Step[T]:
        """Join the held batches: the replay is complete, has failed or cannot be asked for."""
        self._replaying = False
        lost: list[range] = []
        deliver: list[T] = []
        while self._held:
            number, ts, batch = self._held.popleft()
            if number < self._next:
                continue
            lost.extend(self._lost_before(number))
            deliver.append(self._accept(number, ts, batch))
        return Step(lost=tuple(lost), deliver=tuple(deliver))

    def _live_after_restart(self, number: int, ts: float, batch: T) -> Step[T]:
        if number == 0:
            return Step(restarted=True, deliver=(self._accept(number, ts, batch),))
        self._held.append((number, ts, batch))
        return self._replay(restarted=True)

    def _hold(self, number: int, ts: float, batch: T) -> Step[T]:
        self._held.append((number, ts, batch))
        if len(self._held) > self._max_held:
            return self.replay_ended()
        return Step()

    def _replay(self, *, restarted: bool) -> Step[T]:
        self._replaying = True
        return Step(restarted=restarted, replay_from=self._next)

    def _accept(self, number: int, ts: float, batch: T) -> T:
        self._next = number + 1
        self._last_ts = max(self._last_ts, ts)
        return batch

    def _lost_before(self, number: int) -> tuple[range, ...]:
        return (range(self._next, number),) if number > self._next else ()

    def _forget(self) -> None:
        self._held.clear()
        self._next = 0
        self._last_ts = float("-inf")
        self._replaying = False
