"""Requests that come whether or not the ones before have been answered, as many people's do."""

import asyncio
import threading
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Final, Self

from e2e.support.conversation import Chat

_WORDS: Final = "and then it went on as such stories do "
_TOKENS: Final = 32
"""For a simulated engine, whose vocabulary has few words."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What is asked: how often, how long the prompts are, and how long the answers."""

    rate_per_s: float
    prompt_tokens: int
    answer_tokens: int


@dataclass(slots=True)
class Traffic:
    """An open loop from entering to leaving; its shape may be changed meanwhile."""

    chat: Chat
    shape: Shape
    asked: int = 0
    ended: int = 0
    wrong: list[str] = field(default_factory=list[str])
    _over: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="traffic")
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ask no more, and wait for the answers that are due."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as group:
            while not self._over.is_set():
                self.asked += 1
                group.create_task(self._one(self.asked, self.shape), name=f"request {self.asked}")
                await asyncio.sleep(1.0 / self.shape.rate_per_s)

    async def _one(self, number: int, shape: Shape) -> None:
        prompt = f"Story {number}: " + _WORDS * (shape.prompt_tokens // _TOKENS)
        answer = await replace(self.chat, tokens=shape.answer_tokens).ask(prompt)
        self.ended += 1
        if answer.problem or answer.completion_tokens != shape.answer_tokens:
            self.wrong.append(f"request {number}: {answer.problem or answer}")
