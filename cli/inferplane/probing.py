"""Times of a live engine, asked through its OpenAI interface.

Prompts are rows of token ids that nobody has sent before, so that no cache knows them but where it should.  A prompt's
time is that of an answer of one token; a step's time is taken while all answers of a batch are running, from the first
moment that all have begun to the last before one ends.
Trade-off: the way there and back is in a prompt's time, and cancels out of a step's.
"""

import asyncio
import json
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, cast

import httpx

from inferplane.errors import CommandError
from inferplane_planner.calibration.grid import DecodePoint, PrefillPoint, Sample

_OK: Final = 200
_TOKENS: Final = 128
"""Length of the answers whose steps are timed."""
_FEWEST: Final = 4
"""Pieces of an answer below which its steps cannot be timed."""
_IDS: Final = range(100, 1000)
"""Token ids that every vocabulary has."""


class Engine(Protocol):
    async def measure(self, point: PrefillPoint | DecodePoint) -> Sample:
        """Measure a point once.  Raises CommandError."""
        ...


@dataclass(slots=True)
class HttpEngine:
    """`client` has the engine's address as its base."""

    client: httpx.AsyncClient
    model: str
    rng: random.Random
    clock: Callable[[], float] = time.perf_counter
    _warm: bool = field(default=False)

    async def measure(self, point: PrefillPoint | DecodePoint) -> Sample:
        try:
            if not self._warm:
                await self._prompt(self._ids(32))
                self._warm = True
            return await (self._prefill(point) if isinstance(point, PrefillPoint) else self._decode(point))
        except ExceptionGroup as group:  # answers of one batch: what stopped the first of them is the reason
            raise _cannot(group.exceptions[0]) from group
        except (httpx.HTTPError, ValueError, KeyError) as error:
            raise _cannot(error) from error

    async def _prefill(self, point: PrefillPoint) -> Sample:
        before = self._ids(point.cached)
        if before:
            await self._prompt(before)
        prompt = before + self._ids(point.tokens)
        begun = self.clock()
        await self._prompt(prompt)
        return Sample(point, self.clock() - begun)

    async def _decode(self, point: DecodePoint) -> Sample:
        prompts = [self._ids(point.context) for _ in range(point.batch)]
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._answer(prompt), name="answer") for prompt in prompts]
        return steps_of(point, [task.result() for task in tasks])

    async def _prompt(self, prompt: list[int]) -> None:
        reply = await self.client.post("/v1/completions", json=self._body(prompt, 1))
        _require_answer(reply.status_code, reply.text)

    async def _answer(self, prompt: list[int]) -> list[tuple[float, int]]:
        """Return (moment, tokens so far) for each piece of an answer."""
        more = {"stream": True, "stream_options": {"include_usage": True, "continuous_usage_stats": True}}
        found = list[tuple[float, int]]()
        async with self.client.stream("POST", "/v1/completions", json={**self._body(prompt, _TOKENS), **more}) as reply:
            if reply.status_code != _OK:
                _require_answer(reply.status_code, (await reply.aread()).decode(errors="replace"))
            async for line in reply.aiter_lines():
                if line.startswith("data: {"):
                    found.append((self.clock(), _tokens(json.loads(line[6:]), len(found) + 1)))
        return found

    def _body(self, prompt: list[int], tokens: int) -> dict[str, Any]:
        return {
            "model": self.model,
            "prompt": prompt,
            "max_tokens": tokens,
            "min_tokens": tokens,
            "ignore_eos": True,
            "temperature": 0,
        }

    def _ids(self, count: int) -> list[int]:
        return self.rng.choices(_IDS, k=count)


def steps_of(point: DecodePoint, answers: list[list[tuple[float, int]]]) -> Sample:
    """Return the mean step while all answers ran.  Raises CommandError where there was no such time."""
    if any(len(answer) < _FEWEST for answer in answers):
        raise CommandError("an answer was too short to time its steps; does the engine honour ignore_eos?")
    begin, end = max(answer[0][0] for answer in answers), min(answer[-1][0] for answer in answers)
    counts = [_within(answer, begin, end) for answer in answers]
    steps = sum(count for count, _ in counts) / len(counts)
    if steps < 1.0:
        raise CommandError(
            f"{point.batch} answers never ran at once; lower --most to what the engine runs at once, "
            "and leave the machine to it"
        )
    grown = sum(middle for _, middle in counts)
    return Sample(point, (end - begin) / steps, point.batch * point.context + grown)


def _within(answer: list[tuple[float, int]], begin: float, end: float) -> tuple[int, float]:
    """Return the tokens that came between two moments, and how many there were halfway."""
    inside = [tokens for at, tokens in answer if begin <= at <= end] or [0]
    return inside[-1] - inside[0], (inside[0] + inside[-1]) / 2.0


def _tokens(chunk: dict[str, Any], count: int) -> int:
    """Return the tokens so far as the engine says, or one a chunk where it does not."""
    usage = cast("dict[str, Any]", chunk.get("usage") or {})
    return int(usage.get("completion_tokens") or count)


def _cannot(error: Exception) -> CommandError:
    if isinstance(error, CommandError):
        return error
    return CommandError(f"the engine cannot be measured: {error or type(error).__name__}")


def _require_answer(status: int, text: str) -> None:
    if status != _OK:
        raise CommandError(f"the engine answers {status}: {text[:200]}")


async def model_of(client: httpx.AsyncClient) -> str:
    """Return the first model that is served.  Raises CommandError."""
    try:
        reply = await client.get("/v1/models")
        _require_answer(reply.status_code, reply.text)
        return str(reply.json()["data"][0]["id"])
    except (httpx.HTTPError, ValueError, KeyError, IndexError, TypeError) as error:
        raise CommandError(f"no model is found at {client.base_url}: {error or type(error).__name__}") from error
