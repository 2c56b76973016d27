"""Which slots a service's workers have: consecutive ones for the ranks of a worker, the lowest that are free.

Invariant: no two workers hold one slot.  A low number costs less: slots are bits, and 64 of them a word of every row.
"""

from typing import Final

LOWEST: Final = 0


class Seats:
    """Slots that are held, by worker."""

    def __init__(self) -> None:
        self._held: dict[str, range] = {}

    @property
    def held(self) -> dict[str, range]:
        """Who holds what."""
        return dict(self._held)

    def of(self, worker_id: str) -> range | None:
        return self._held.get(worker_id)

    def hold(self, worker_id: str, slots: range) -> None:
        """Give a worker exactly these slots; somebody else's are a ValueError."""
        for other, theirs in self._held.items():
            if other != worker_id and slots.start < theirs.stop and theirs.start < slots.stop:
                raise ValueError(f"slots {slots.start} to {slots.stop - 1} of {worker_id} overlap those of {other}")
        self._held[worker_id] = slots

    def allot(self, worker_id: str, ranks: int) -> range:
        """Give a worker the lowest stretch of so many slots that nobody else holds."""
        self._held.pop(worker_id, None)
        start = LOWEST
        for taken in sorted(self._held.values(), key=lambda slots: slots.start):
            if taken.start - start >= ranks:
                break
            start = max(start, taken.stop)
        slots = self._held[worker_id] = range(start, start + ranks)
        return slots

    def release(self, slots: range) -> None:
        """Take slots back from whoever holds them."""
        for worker_id, held in tuple(self._held.items()):
            if held == slots:
                del self._held[worker_id]
