"""A worker's ports: held for as long as the worker exists, so that a restarted program finds its own port again.

A held port is bound and not listened on.  On Linux a program may bind and listen on it meanwhile and nobody else is
given it, so it is kept for the worker's whole life.  Elsewhere it has to be let go right before the start; a stranger
who takes it in that moment makes the program die of "address in use", and the next start gets another port.
"""

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from inferplane_operator.local import port_owner

_ROW_ATTEMPTS = 100
_SHARED = sys.platform == "linux"


class HeldPort(Protocol):
    """A port that is bound and not listened on."""

    @property
    def number(self) -> int: ...

    def release(self) -> None:
        """Let go of it; again is harmless."""
        ...


@dataclass(eq=False)
class Ports:
    """Ports by purpose, all for one program."""

    hold: Callable[[int], HeldPort]
    """Holds the port of that number, or any free one for 0."""
    shared: bool = _SHARED
    """Whether a held port can be listened on by another program."""
    _held: dict[str, HeldPort] = field(default_factory=dict[str, HeldPort])
    _let_go: bool = False

    def __getitem__(self, purpose: str) -> int:
        return self._held[purpose].number

    def take(self, purposes: Iterable[str]) -> None:
        for purpose in purposes:
            self._held[purpose] = self.hold(0)

    def take_row(self, purpose: str, count: int) -> None:
        """Take `count` ports in a row; `purpose` names the first."""
        for _ in range(_ROW_ATTEMPTS):
            row = self._row(count)
            if row:
                self._held |= {purpose if index == 0 else f"{purpose}-{index}": held for index, held in enumerate(row)}
                return
        raise OSError(f"no {count} free ports in a row were found for {purpose}")

    def _row(self, count: int) -> list[HeldPort]:
        """Hold a free port and those after it; nothing when one of them is taken."""
        row = [self.hold(0)]
        try:
            for offset in range(1, count):
                row.append(self.hold(row[0].number + offset))
        except (OSError, OverflowError):  # taken, or beyond the last port
            for held in row:
                held.release()
            return []
        return row

    def hand_over(self) -> bool:
        """Make the ports usable for a start; return whether one had been lost and is another now."""
        if self.shared:
            return False
        lost = [name for name, held in self._held.items() if self._let_go and not port_owner.is_free(held.number)]
        self.take(lost)
        self.release()
        self._let_go = True
        return bool(lost)

    def release(self) -> None:
        for held in self._held.values():
            held.release()
