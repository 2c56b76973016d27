"""Who of a router's processes runs, is forked again, or is asked to end: what the supervisor does, without doing it.

A router that cannot begin (an address is taken, a file cannot be read) ends with the code of whoever said so.  One that
has run forks whoever dies, at once, and ever more slowly while the same one dies soon after its start.
A drain ends the gateways first and then the index process, which hears their agents until the last request is over.
Invariant: no member runs twice; once everybody is gone after a stop, there is an `End`.
"""

import signal
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

_LONG_ENOUGH_S: Final = 5.0
"""Who has run for so long did not die of its start."""
_FIRST_PAUSE_S: Final = 0.25
_LONGEST_PAUSE_S: Final = 10.0
_FAILED: Final = 1
_WRONG_USAGE: Final = 2
_FORCED: Final = 130


class Part(StrEnum):
    INDEX = "index"
    GATEWAY = "gateway"


@dataclass(frozen=True, slots=True, order=True)
class Member:
    """One process of the router."""

    part: Part
    number: int = 0

    @property
    def name(self) -> str:
        return self.part.value if self.part is Part.INDEX else f"{self.part.value}-{self.number}"


INDEX: Final = Member(Part.INDEX)


@dataclass(frozen=True, slots=True)
class Fork:
    member: Member


@dataclass(frozen=True, slots=True)
class Signal:
    member: Member
    number: int


@dataclass(frozen=True, slots=True)
class End:
    code: int


Action = Fork | Signal | End


class Crew:
    """Takes what happens, and the time; gives what to do."""

    def __init__(self, gateways: int) -> None:
        self._members = [INDEX, *(Member(Part.GATEWAY, number) for number in range(gateways))]
        self._since: dict[Member, float] = {}
        """Who runs, and since when."""
        self._due: dict[Member, float] = {}
        """Who is forked again, and when."""
        self._deaths: dict[Member, int] = {}
        """How often in a row somebody has died soon after its start."""
        self._began = 0.0
        self._code = 0
        self._stopping = False
        self._told_index = False

    @property
    def running(self) -> frozenset[Member]:
        return frozenset(self._since)

    @property
    def stopping(self) -> bool:
        """Nobody is forked any more."""
        return self._stopping

    def begin(self, now: float) -> list[Action]:
        self._began = now
        return [self._fork(member, now) for member in self._members]

    def exited(self, member: Member, code: int, now: float) -> list[Action]:
        """Take the end of a process; a negative code is the signal that ended it."""
        lived_s = now - self._since.pop(member)
        if self._stopping:
            self._code = self._code or (0 if code == -signal.SIGTERM else code)  # killed by it: nothing had begun
            return self._close()
        if code == _WRONG_USAGE or (code > 0 and now - self._began < _LONG_ENOUGH_S):
            self._code = code
            return self.stop(now)
        self._deaths[member] = 0 if lived_s >= _LONG_ENOUGH_S else self._deaths.get(member, 0) + 1
        self._due[member] = now + _pause_s(self._deaths[member])
        return self.due(now)

    def due(self, now: float) -> list[Action]:
        """Fork whose time has come."""
        ready = [member for member, at in self._due.items() if at <= now]
        for member in ready:
            del self._due[member]
        return [self._fork(member, now) for member in ready]

    def next_due(self) -> float | None:
        return min(self._due.values(), default=None)

    def stop(self, now: float) -> list[Action]:
        """Drain; asked twice, end at once."""
        del now
        if self._stopping:
            return [*(Signal(member, signal.SIGKILL) for member in sorted(self._since)), End(_FORCED)]
        self._stopping = True
        self._due.clear()
        gateways = [member for member in sorted(self._since) if member.part is Part.GATEWAY]
        return [*(Signal(member, signal.SIGTERM) for member in gateways), *self._close()]

    def _close(self) -> list[Action]:
        """End the index process behind the last gateway, and then all."""
        if not self._since:
            return [End(self._code if self._code >= 0 else _FAILED)]
        if self._since.keys() == {INDEX} and not self._told_index:
            self._told_index = True
            return [Signal(INDEX, signal.SIGTERM)]
        return []

    def _fork(self, member: Member, now: float) -> Action:
        self._since[member] = now
        return Fork(member)


def _pause_s(deaths: int) -> float:
    if deaths <= 1:
        return 0.0
    return min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2.0 ** min(deaths - 2, 10))
