"""A hand-off whose two halves are sent at once and meet on a number, as a table of transitions.

Problem: engines such as SGLang start both halves together; the decode engine waits for the prefill engine's blocks and
cannot compute a prompt itself, and the prefill engine answers only once its blocks are taken.  So each half can leave
the other waiting for minutes.  Idea: a machine without I/O that ends the other half whenever one fails; the pair is
then tried with the next prefill worker under a new number, both halves anew.
Trade-off: there is no fall-back: with no prefill worker left the request fails.
Invariant: at most one pair is in force, its number was never used before, and at the end no half is.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class State(StrEnum):
    """Where the request is."""

    START = "start"
    MEETING = "meeting"
    """Both halves have it; nothing has come yet."""
    DECODING = "decoding"
    """The own engine answers."""
    DONE = "done"


class Event(StrEnum):
    """What can happen to it."""

    BEGIN = "begin"
    PREFILL_ANSWERED = "prefill_answered"
    PREFILL_FAILED = "prefill_failed"
    PREFILL_REJECTED = "prefill_rejected"
    """The prefill engine found fault with the request itself."""
    FIRST_TOKEN = "first_token"  # noqa: S105 - a token of text, no password
    DECODE_FAILED = "decode_failed"
    """The own engine lives and failed with this pair: its blocks may not have come."""
    DECODE_LOST = "decode_lost"
    """The own engine is gone: no other pair would do better."""
    ENDED = "ended"
    """The own engine's answer is whole."""
    BROKEN = "broken"
    """It is not, or it was an error."""
    CLIENT_GONE = "client_gone"


@dataclass(frozen=True, slots=True)
class Meet:
    """Send both halves."""

    address: str
    room: int


@dataclass(frozen=True, slots=True)
class CancelPrefill:
    pass


@dataclass(frozen=True, slots=True)
class CancelDecode:
    pass


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Nothing is left to try: answer with the last failure."""


Effect = Meet | CancelPrefill | CancelDecode | GiveUp


class Meeting:
    """One request's machine.  `draw` gives a number that no other pair has."""

    __slots__ = ("candidates", "draw", "failed", "prefilling", "state", "tried")

    def __init__(self, candidates: tuple[str, ...], *, draw: Callable[[], int]) -> None:
        self.candidates = candidates
        self.draw = draw
        self.tried = 0
        self.prefilling = False
        """Whether a prefill half is in force."""
        self.failed: list[str] = []
        self.state = State.START

    @property
    def prefill_worker(self) -> str:
        """The candidate that was tried last; meaningful once one was."""
        return self.candidates[self.tried - 1] if self.tried else ""

    def on(self, event: Event) -> tuple[Effect, ...]:
        """Take one event; return what to do.  An event that no longer matters does nothing."""
        if event in _PREFILL_OVER:
            self.prefilling = False
        step = TRANSITIONS.get((self.state, event))
        return step(self) if step is not None else ()

    def stop_prefill(self) -> tuple[Effect, ...]:
        """End the prefill half, if it is in force."""
        if not self.prefilling:
            return ()
        self.prefilling = False
        return (CancelPrefill(),)

    def next_pair(self) -> tuple[Effect, ...]:
        """Try the next candidate, then give up."""
        if self.tried == len(self.candidates):
            self.state = State.DONE
            return (GiveUp(),)
        self.tried += 1
        self.prefilling = True
        self.state = State.MEETING
        return (Meet(self.prefill_worker, self.draw()),)


_PREFILL_OVER: Final = frozenset({Event.PREFILL_ANSWERED, Event.PREFILL_FAILED, Event.PREFILL_REJECTED})
Step = Callable[[Meeting], tuple[Effect, ...]]


def _begin(meeting: Meeting) -> tuple[Effect, ...]:
    return meeting.next_pair()


def _prefill_failed(meeting: Meeting) -> tuple[Effect, ...]:
    """Do not let the own engine wait for what will not come."""
    meeting.failed.append(meeting.prefill_worker)
    return (CancelDecode(), *meeting.next_pair())


def _rejected(meeting: Meeting) -> tuple[Effect, ...]:
    """Answer as the prefill engine did: the prompt is the same on every worker."""
    meeting.state = State.DONE
    return (CancelDecode(), GiveUp())


def _decode_failed(meeting: Meeting) -> tuple[Effect, ...]:
    meeting.failed.append(meeting.prefill_worker)
    return (*meeting.stop_prefill(), *meeting.next_pair())


def _decode_lost(meeting: Meeting) -> tuple[Effect, ...]:
    meeting.state = State.DONE
    return (*meeting.stop_prefill(), GiveUp())


def _begun(meeting: Meeting) -> tuple[Effect, ...]:
    meeting.state = State.DECODING
    return ()


def _ended(meeting: Meeting) -> tuple[Effect, ...]:
    """Let the prefill half end by itself: its blocks were taken, and its answer says what they cost."""
    meeting.state = State.DONE
    return ()


def _broken(meeting: Meeting) -> tuple[Effect, ...]:
    meeting.state = State.DONE
    return meeting.stop_prefill()


def _gone(meeting: Meeting) -> tuple[Effect, ...]:
    meeting.state = State.DONE
    return (CancelDecode(), *meeting.stop_prefill())


TRANSITIONS: Final[Mapping[tuple[State, Event], Step]] = {
    (State.START, Event.BEGIN): _begin,
    (State.START, Event.CLIENT_GONE): _ended,
    (State.MEETING, Event.PREFILL_FAILED): _prefill_failed,
    (State.MEETING, Event.PREFILL_REJECTED): _rejected,
    (State.MEETING, Event.FIRST_TOKEN): _begun,
    (State.MEETING, Event.DECODE_FAILED): _decode_failed,
    (State.MEETING, Event.DECODE_LOST): _decode_lost,
    (State.MEETING, Event.BROKEN): _broken,
    (State.MEETING, Event.CLIENT_GONE): _gone,
    (State.DECODING, Event.ENDED): _ended,
    (State.DECODING, Event.BROKEN): _broken,
    (State.DECODING, Event.CLIENT_GONE): _gone,
}
