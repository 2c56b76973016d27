"""The hand-off of one request from a prefill to a decode worker, as a table of transitions.

Problem: between the prefill side's answer and the decode engine's pull lie a lease, two engines and a network, and each
step can fail in its own way.  Idea: a machine without I/O that is told what happened and says what to do next; the
shell around it sends and receives.  Trade-off: local prefill after a failure computes the prompt twice.
Invariant: a decode engine is given transfer parameters only while the prefill side still holds the blocks, at most once
for each answer, and every answer that was taken is confirmed as pulled or abandoned.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final


class State(StrEnum):
    """Where the request is."""

    START = "start"
    PREFILLING = "prefilling"
    """A prefill worker has it."""
    DECODING = "decoding"
    """The own engine has it and pulls from the prefill worker."""
    LOCAL = "local"
    """The own engine computes the prompt itself."""
    DONE = "done"


class Event(StrEnum):
    """What can happen to it."""

    BEGIN = "begin"
    PREFILL_ANSWERED = "prefill_answered"
    PREFILL_FAILED = "prefill_failed"
    PREFILL_REJECTED = "prefill_rejected"
    """The prefill engine found fault with the request itself: another worker would as well."""
    FIRST_TOKEN = "first_token"  # noqa: S105 - a token of text, no password
    ENGINE_FAILED = "engine_failed"
    """The own engine failed before anything was sent to the client."""
    ENDED = "ended"
    CLIENT_GONE = "client_gone"


@dataclass(frozen=True, slots=True)
class SendPrefill:
    address: str


@dataclass(frozen=True, slots=True)
class SendDecode:
    """Send the request to the own engine; without `transfer` it prefills there."""

    transfer: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Confirm:
    """Tell a prefill worker that its blocks were pulled, or never will be."""

    address: str
    pulled: bool


@dataclass(frozen=True, slots=True)
class CancelPrefill:
    pass


@dataclass(frozen=True, slots=True)
class CancelDecode:
    pass


@dataclass(frozen=True, slots=True)
class Fail:
    """Nothing is left to try: answer with the last failure."""


Effect = SendPrefill | SendDecode | Confirm | CancelPrefill | CancelDecode | Fail


class Handoff:
    """One request's machine.  `deadline_s` bounds the time between a prefill answer and its use."""

    __slots__ = (
        "answered_at",
        "candidates",
        "confirmed",
        "deadline_s",
        "failed",
        "local_prefill",
        "state",
        "transfer",
        "tried",
    )

    def __init__(self, candidates: tuple[str, ...], *, deadline_s: float, local_prefill: bool = True) -> None:
        self.candidates = candidates
        self.deadline_s = deadline_s
        self.local_prefill = local_prefill
        """False for engines whose decode servers cannot prefill: there is no fall-back then."""
        self.tried = 0
        self.transfer: Mapping[str, Any] | None = None
        self.answered_at = 0.0
        self.confirmed = True
        self.failed: list[str] = []
        self.state = State.START

    @property
    def prefill_worker(self) -> str:
        """The candidate that was tried last; meaningful once one was."""
        return self.candidates[self.tried - 1] if self.tried else ""

    def on(
        self,
        event: Event,
        *,
        now: float = 0.0,
        transfer: Mapping[str, Any] | None = None,
        answered_at: float | None = None,
    ) -> tuple[Effect, ...]:
        """Take one event; return what to do.  An event that no longer matters does nothing."""
        step = TRANSITIONS.get((self.state, event))
        if step is None:
            return ()
        if event is Event.PREFILL_ANSWERED:
            self.transfer = transfer
            self.answered_at = now if answered_at is None else answered_at
            self.confirmed = False
        return step(self, now)

    def confirm(self, *, pulled: bool) -> tuple[Effect, ...]:
        """Say once what became of the blocks that the last prefill answer offered."""
        if self.confirmed:
            return ()
        self.confirmed = True
        return (Confirm(self.prefill_worker, pulled),)

    def next_prefill(self) -> tuple[Effect, ...]:
        """Try the next candidate, then the own engine, then give up."""
        if self.tried < len(self.candidates):
            self.tried += 1
            self.state = State.PREFILLING
            return (SendPrefill(self.prefill_worker),)
        return self.prefill_here()

    def prefill_here(self) -> tuple[Effect, ...]:
        if not self.local_prefill:
            self.state = State.DONE
            return (Fail(),)
        self.state = State.LOCAL
        return (SendDecode(None),)


Step = Callable[[Handoff, float], tuple[Effect, ...]]


def _begin(handoff: Handoff, _now: float) -> tuple[Effect, ...]:
    return handoff.next_prefill()


def _answered(handoff: Handoff, now: float) -> tuple[Effect, ...]:
    if handoff.transfer is None or now - handoff.answered_at > handoff.deadline_s:
        handoff.failed.append(handoff.prefill_worker)
        return (*handoff.confirm(pulled=False), *handoff.prefill_here())
    handoff.state = State.DECODING
    return (SendDecode(handoff.transfer),)


def _prefill_failed(handoff: Handoff, _now: float) -> tuple[Effect, ...]:
    handoff.failed.append(handoff.prefill_worker)
    return handoff.next_prefill()


def _rejected(handoff: Handoff, _now: float) -> tuple[Effect, ...]:
    """Let the own engine judge the request: its answer, not that to our edited half, is the client's."""
    return handoff.prefill_here()


def _pulled(handoff: Handoff, _now: float) -> tuple[Effect, ...]:
    return handoff.confirm(pulled=True)


def _decode_failed(handoff: Handoff, _now: float) -> tuple[Effect, ...]:
    """Let the own engine prefill once: the transfer may be what it could not do."""
    handoff.failed.append(handoff.prefill_worker)
    return (*handoff.confirm(pulled=False), *handoff.prefill_here())


def _local_failed(handoff: Handoff, _now: float) -> tuple[Effect, ...]:
    handoff.state = State.DONE
    return (Fail(),)


def _ended(handoff: Handoff, _now: float) -> tuple[Effect, ...]:
    handoff.state = State.DONE
    return handoff.confirm(pulled=True)


def _gone_early(handoff: Handoff, _now: float) -> tuple[Effect, ...]:
    handoff.state = State.DONE
    return ()


def _gone_prefilling(handoff: Handoff, _now: float) -> tuple[Effect, ...]:
    handoff.state = State.DONE
    return (CancelPrefill(),)


def _gone_decoding(handoff: Handoff, _now: float) -> tuple[Effect, ...]:
    handoff.state = State.DONE
    return (CancelDecode(), *handoff.confirm(pulled=False))


TRANSITIONS: Final[Mapping[tuple[State, Event], Step]] = {
    (State.START, Event.BEGIN): _begin,
    (State.START, Event.CLIENT_GONE): _gone_early,
    (State.PREFILLING, Event.PREFILL_ANSWERED): _answered,
    (State.PREFILLING, Event.PREFILL_FAILED): _prefill_failed,
    (State.PREFILLING, Event.PREFILL_REJECTED): _rejected,
    (State.PREFILLING, Event.CLIENT_GONE): _gone_prefilling,
    (State.DECODING, Event.FIRST_TOKEN): _pulled,
    (State.DECODING, Event.ENGINE_FAILED): _decode_failed,
    (State.DECODING, Event.ENDED): _ended,
    (State.DECODING, Event.CLIENT_GONE): _gone_decoding,
    (State.LOCAL, Event.ENGINE_FAILED): _local_failed,
    (State.LOCAL, Event.ENDED): _ended,
    (State.LOCAL, Event.CLIENT_GONE): _gone_decoding,
}
