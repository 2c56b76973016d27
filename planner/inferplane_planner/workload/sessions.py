"""Closed loop: sessions that send a turn, wait for its answer, think, and send the next one with all that was said.

An agent is a session whose pauses are tools, and which now and then forks: two continuations of one past.
"""

import heapq
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from inferplane_planner.workload.arrivals import Process, check_positive
from inferplane_planner.workload.errors import WorkloadError
from inferplane_planner.workload.lengths import Fixed, Lengths
from inferplane_planner.workload.open_loop import Ends
from inferplane_planner.workload.prompts import Piece, Prompt, Request
from inferplane_planner.workload.shapes import ANSWER, OWN, SYSTEM, draw_rank, named

_TURN_BITS: Final = 16
_SYSTEM: Final = Fixed(256)


@dataclass(frozen=True, slots=True)
class Talk:
    """What sessions are like; pauses in seconds."""

    turns: Lengths
    """Requests in a session."""
    question: Lengths
    answer: Lengths
    pause_s: float
    """Mean time from an answer to the next turn, drawn exponentially."""
    system: Lengths = _SYSTEM
    systems: int = 1
    """System prompts there are; a session begins with one of them."""
    skew: float = 0.0
    fork: float = 0.0
    """Chance that a turn is sent twice, with different questions."""

    def __post_init__(self) -> None:
        check_positive("systems", self.systems)
        if not 0 <= self.fork < 1:
            raise WorkloadError("fork", f"{self.fork:g} is not a chance below 1", "give 0 to 0.9")


@dataclass(slots=True)
class _Session:
    number: int
    rng: np.random.Generator
    past: Prompt
    left: int
    asked: int = 0


@dataclass(order=True, slots=True)
class _Due:
    at_s: float
    order: int
    session: _Session = field(compare=False)
    past: Prompt = field(compare=False)


class Sessions:
    """Sessions begin as a process says; each draws from a generator of its own, so others' answers change nothing."""

    def __init__(self, process: Process, talk: Talk, *, seed: int, ends: Ends | None = None) -> None:
        self._seed = seed
        self._talk = talk
        self._ends = ends or Ends()
        self._begins = process.times(np.random.default_rng((seed, 0xBE61)))
        self._due: list[_Due] = []
        self._order = 0
        self._sessions = 0
        self._requests = 0
        self._waiting: dict[int, tuple[_Session, Prompt, int]] = {}
        self._more = True
        self._open_next()

    def peek(self) -> float | None:
        if self._due and self._ends.reached(self._requests, self._due[0].at_s):
            return None
        return self._due[0].at_s if self._due else None

    def take(self) -> Request:
        due = heapq.heappop(self._due)
        session = due.session
        if session.asked == 0:
            self._open_next()
        number = self._requests
        self._requests += 1
        session.asked += 1
        turn = (session.number << _TURN_BITS) + session.asked
        prompt = due.past.followed_by(Piece(named(OWN, turn), self._talk.question.draw(session.rng)))
        self._waiting[number] = (session, prompt, turn)
        output = self._talk.answer.draw(session.rng)
        return Request(number, due.at_s, prompt, output, session=session.number, answer=named(ANSWER, turn))

    def finished(self, request: Request, at_s: float) -> None:
        session, prompt, turn = self._waiting.pop(request.number)
        if session.left <= 0:
            return
        past = prompt.followed_by(Piece(named(ANSWER, turn), request.output_tokens))
        copies = 2 if session.left > 1 and session.rng.random() < self._talk.fork else 1
        for _ in range(copies):
            session.left -= 1
            self._push(at_s + float(session.rng.exponential(self._talk.pause_s)), session, past)

    def _open_next(self) -> None:
        number = self._sessions
        self._sessions += 1
        rng = np.random.default_rng((self._seed, number))
        system = draw_rank(rng, self._talk.systems, self._talk.skew)
        length = self._talk.system.draw(np.random.default_rng((system, 0x5F57)))
        past = Prompt((Piece(named(SYSTEM, system), length),))
        session = _Session(number, rng, past, self._talk.turns.draw(rng) - 1)
        self._push(next(self._begins), session, past)

    def _push(self, at_s: float, session: _Session, past: Prompt) -> None:
        heapq.heappush(self._due, _Due(at_s, self._order, session, past))
        self._order += 1
