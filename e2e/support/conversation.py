"""Streams of chat through a gateway, every one compared with what a quiet service answered.

The simulated engine's words are a function of the prompt and of the KV blocks that it really holds, so the answer to a
prompt is the same on every worker, before and after a hand-off, and whatever else runs: any lost, repeated or foreign
token shows.
"""

import asyncio
import itertools
import json
import threading
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Self

from e2e.support.sse import BrokenError, events

STREAMS: Final = 50
_LIMIT_S: Final = 120.0
_PAUSE_S: Final = 0.5
"""After an answer that was wrong; a gateway that refuses is not asked in a tight loop."""
_PROMPT: Final = "Tell number {number} what happened next. " + "It was a long story with many turnings. " * 12


@dataclass(frozen=True, slots=True)
class Answer:
    """One stream to its end.  `problem` is empty when it ended as a stream should."""

    text: str = ""
    finish_reason: str = ""
    completion_tokens: int = 0
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Chat:
    """What to ask: of whom, by which name, and how long the answer is."""

    url: str
    model: str
    tokens: int = 96

    def body(self, prompt: str) -> Mapping[str, Any]:
        return {
            "model": self.model,
            "messages": [{"role": "user", "content": prompt}],
            "max_tokens": self.tokens,
            "ignore_eos": True,
            "stream": True,
            "stream_options": {"include_usage": True},
        }

    @property
    def _endpoint(self) -> str:
        return f"{self.url}/v1/chat/completions"

    async def ask(self, prompt: str) -> Answer:
        """Ask on a connection of its own, as a new client does; whatever goes wrong is in the answer."""
        reading = _Reading()
        try:
            async with asyncio.timeout(_LIMIT_S), aclosing(events(self._endpoint, self.body(prompt))) as coming:
                async for event in coming:
                    if reading.take(event):
                        return reading.answer()
        except (BrokenError, TimeoutError) as error:
            return reading.answer(f"broken after {len(reading.pieces)} pieces: {type(error).__name__}: {error}")
        return reading.answer(f"ended without [DONE] after {len(reading.pieces)} pieces")


@dataclass(slots=True)
class _Reading:
    """An answer while it comes."""

    pieces: list[str] = field(default_factory=list[str])
    finish_reason: str = ""
    tokens: int = 0
    error: str = ""

    def take(self, event: bytes) -> bool:
        """Take an event in; return whether it was the last one."""
        if event == b"[DONE]":
            return True
        found: dict[str, Any] = json.loads(event)
        if "error" in found:
            self.error = f"error in the stream: {found['error']}"
            return True
        for choice in found.get("choices", ()):
            self.pieces.append(choice["delta"].get("content") or "")
            self.finish_reason = choice.get("finish_reason") or self.finish_reason
        usage: dict[str, int] = found.get("usage") or {}
        self.tokens = usage.get("completion_tokens", self.tokens)
        return False

    def answer(self, problem: str = "") -> Answer:
        text, wrong = "".join(self.pieces), problem or self.error
        return Answer(text, problem=wrong) if wrong else Answer(text, self.finish_reason, self.tokens)


@dataclass(slots=True)
class Load:
    """A number of streams at any time, from entering to leaving; `wrong` says what was not as it should be."""

    chat: Chat
    streams: int = STREAMS
    ended: int = 0
    wrong: list[str] = field(default_factory=list[str])
    _looked_at: int = 0
    _expected: dict[str, Answer] = field(default_factory=dict[str, Answer])
    _over: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._expected = asyncio.run(_quiet_answers(self.chat, _prompts(self.streams)))
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="load")
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Begin no more streams, and wait for those that run."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def newly_wrong(self) -> Sequence[str]:
        """Return what has gone wrong since this was asked before."""
        found = self.wrong[self._looked_at :]
        self._looked_at += len(found)
        return found

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for prompt in self._expected:
                group.create_task(self._repeat(prompt), name=prompt[:24])

    async def _repeat(self, prompt: str) -> None:
        for turn in itertools.count():
            if self._over.is_set():
                return
            answer = await self.chat.ask(prompt)
            self.ended += 1
            if answer != self._expected[prompt]:
                self.wrong.append(f"turn {turn} of {prompt[:24]!r}: {_difference(answer, self._expected[prompt])}")
                await asyncio.sleep(_PAUSE_S)


def _prompts(count: int) -> Sequence[str]:
    return [_PROMPT.format(number=number) for number in range(count)]


async def _quiet_answers(chat: Chat, prompts: Sequence[str]) -> dict[str, Answer]:
    """Ask everything once, a few at a time, and make sure that these answers themselves are whole."""
    gate = asyncio.Semaphore(16)

    async def one(prompt: str) -> Answer:
        async with gate:
            return await chat.ask(prompt)

    answers = await asyncio.gather(*(one(prompt) for prompt in prompts))
    for answer in answers:
        assert not answer.problem, answer.problem
        assert answer.completion_tokens == chat.tokens, answer
        assert answer.finish_reason == "length", answer
    return dict(zip(prompts, answers, strict=True))


def _difference(answer: Answer, expected: Answer) -> str:
    if answer.problem:
        return answer.problem
    pairs = enumerate(zip(answer.text, expected.text, strict=False))
    same = next((place for place, (said, wanted) in pairs if said != wanted), min(len(answer.text), len(expected.text)))
    return f"the text differs from character {same} on ({answer.finish_reason}, {answer.completion_tokens} tokens)"
