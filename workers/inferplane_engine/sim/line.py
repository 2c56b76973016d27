"""A queue that sequences can leave from anywhere: a client that goes may abandon thousands at once.

Invariant: every operation takes the same time however long the line is.
"""

from collections import OrderedDict

from inferplane_engine.sim.sequence import Sequence


class Line:
    """Sequences in the order in which they are taken, each at most once."""

    __slots__ = ("_places",)

    def __init__(self) -> None:
        self._places: OrderedDict[Sequence, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, sequence: Sequence) -> bool:
        return sequence in self._places

    @property
    def first(self) -> Sequence:
        """The next to be taken; StopIteration where nobody stands in line."""
        return next(iter(self._places))

    def append(self, sequence: Sequence) -> None:
        """Stand at the end."""
        self._places[sequence] = None

    def push(self, sequence: Sequence) -> None:
        """Stand before everybody."""
        self._places[sequence] = None
        self._places.move_to_end(sequence, last=False)

    def take(self) -> Sequence:
        """Remove the first."""
        return self._places.popitem(last=False)[0]

    def leave(self, sequence: Sequence) -> None:
        """Remove a sequence that may stand in this line."""
        self._places.pop(sequence, None)
