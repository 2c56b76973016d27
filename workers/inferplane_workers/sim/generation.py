"""One answer on its way: tokens become text, text becomes chunks or a whole body.

The problem: chat and completions differ in shape only; n choices, stop strings, usage, disconnects and errors are the
same.
The idea: a `Generation` owns the exchange and one sink per choice; an `AnswerShape` turns choices into JSON values.
The invariant: usage counts the tokens that the engine produced, whatever was cut from the text; an answer that began
ends with [DONE] or, if the engine is gone, with a reset.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import orjson

from inferplane_engine.sim.events import Finished, FinishReason
from inferplane_runtime.http.api import Exchange, Headers, ResponseHead
from inferplane_workers.sim.errors import ApiError, engine_dead, json_response
from inferplane_workers.sim.sampling import Sampling
from inferplane_workers.sim.text import TextStream

_STREAM_HEAD = ResponseHead(200, Headers(((b"content-type", b"text/event-stream; charset=utf-8"),)))
_DONE = b"data: [DONE]\n\n"


@dataclass(slots=True)
class Choice:
    """One of the answers to one of the prompts."""

    index: int
    prompt: tuple[int, ...]
    stream: TextStream
    tokens: list[int] = field(default_factory=list[int])
    text: str = ""
    sent: int = 0
    """Characters of `text` that have been given out."""
    began: bool = False
    reason: str | None = None
    stop_reason: str | int | None = None
    finished: Finished | None = None


@dataclass(frozen=True, slots=True)
class Delta:
    """What is new about a choice."""

    choice: Choice
    text: str
    tokens: tuple[int, ...]


class AnswerShape(Protocol):
    """JSON of one endpoint."""

    def opening(self, choice: Choice, /) -> dict[str, object] | None:
        """First chunk of a choice, before any text."""
        ...

    def delta(self, delta: Delta, /) -> dict[str, object]: ...

    def last(self, usage: dict[str, object], /) -> dict[str, object]:
        """Chunk that carries the usage."""
        ...

    def whole(
        self, choices: Sequence[Choice], usage: dict[str, object], transfer: dict[str, object] | None, /
    ) -> dict[str, object]: ...


class Generation:
    """Collects all choices of one request and answers."""

    def __init__(
        self,
        exchange: Exchange,
        shape: AnswerShape,
        sampling: Sampling,
        choices: Sequence[Choice],
        *,
        details: bool,
        cached_tokens: Callable[[Finished], int],
        transfer: Callable[[Finished], dict[str, object] | None],
        stop: Callable[[Choice], None],
        drop: Callable[[Choice], None],
        over: Callable[["Generation"], None],
    ) -> None:
        self._exchange = exchange
        self._shape = shape
        self._sampling = sampling
        self._choices = list(choices)
        self._details = details
        self._cached_tokens = cached_tokens
        self._transfer = transfer
        self._stop = stop
        self._drop = drop
        self._tell_over = over
        self._over = False
        self._hold_back = max((len(stop) for stop in sampling.stops), default=1) - 1

    def begin(self) -> None:
        """Open the stream; whole answers are sent when they are complete."""
        self._exchange.on_disconnect(self.drop)
        if self._sampling.stream:
            self._exchange.start(_STREAM_HEAD)

    def sink(self, choice: Choice) -> "ChoiceSink":
        return ChoiceSink(self, choice)

    def drop(self) -> None:
        """Stop computing: the client is gone."""
        self._close()
        for choice in self._choices:
            if choice.finished is None:
                self._drop(choice)

    def fail(self, error: ApiError) -> None:
        """End with an error: as an answer, or as the stream's last event."""
        if self._over:
            return
        self.drop()
        if not self._sampling.stream:
            self._exchange.respond(error.response())
            return
        self._exchange.write(_event(error.body()))
        self._exchange.write(_DONE)
        self._exchange.end()

    def reset(self) -> None:
        """End without an answer: the engine is gone."""
        if self._over:
            return
        self._close()
        if self._sampling.stream:
            self._exchange.abort()
        else:
            self._exchange.respond(engine_dead().response())

    def take(self, choice: Choice, tokens: tuple[int, ...], finished: Finished | None) -> None:
        """Engine output for a choice."""
        if self._over:
            return
        if finished is not None and finished.reason is FinishReason.ERROR:
            self.fail(ApiError(500, finished.detail or "Internal server error", kind="InternalServerError"))
            return
        choice.finished = finished
        if choice.reason is None:
            self._add(choice, tokens, finished)
        if all(other.reason is not None and other.finished is not None for other in self._choices):
            self._complete()

    # Inside.

    def _close(self) -> None:
        self._over = True
        self._tell_over(self)

    def _add(self, choice: Choice, tokens: tuple[int, ...], finished: Finished | None) -> None:
        choice.tokens.extend(tokens)
        choice.text += choice.stream.add(tokens)
        stop = self._find_stop(choice)
        if stop is not None:
            choice.reason, choice.stop_reason = "stop", stop
            if finished is None:
                self._stop(choice)
        elif finished is not None:
            choice.reason, choice.stop_reason = str(finished.reason), finished.stop_token
        if self._sampling.stream:
            self._give(choice, tokens)

    def _find_stop(self, choice: Choice) -> str | None:
        """Cut the text at the first stop string."""
        if len(choice.tokens) < self._sampling.min_tokens:
            return None
        found = [
            (at, stop)
            for stop in self._sampling.stops
            if (at := choice.text.find(stop, max(0, choice.sent - len(stop)))) >= 0
        ]
        if not found:
            return None
        at, stop = min(found)
        choice.text = choice.text[: at + len(stop) * self._sampling.include_stop]
        return stop

    def _give(self, choice: Choice, tokens: tuple[int, ...]) -> None:
        """Stream what is certain: the start of a stop string is held back."""
        until = len(choice.text) if choice.reason is not None else max(choice.sent, len(choice.text) - self._hold_back)
        text, choice.sent = choice.text[choice.sent : until], until
        self._open(choice)
        self._write(choice, self._shape.delta(Delta(choice, text, tokens)))

    def _open(self, choice: Choice) -> None:
        if choice.began:
            return
        choice.began = True
        opening = self._shape.opening(choice)
        if opening is not None:
            self._write(choice, opening, produced=0)

    def _write(self, choice: Choice, value: dict[str, object], produced: int | None = None) -> None:
        if self._sampling.continuous_usage:
            value["usage"] = _usage(len(choice.prompt), len(choice.tokens) if produced is None else produced)
        self._exchange.write(_event(value))

    def _complete(self) -> None:
        self._close()
        usage = self._final_usage()
        if not self._sampling.stream:
            first = self._choices[0].finished
            transfer = self._transfer(first) if first is not None else None
            self._exchange.respond(json_response(self._shape.whole(self._choices, usage, transfer)))
            return
        if self._sampling.include_usage:
            self._exchange.write(_event(self._shape.last(usage)))
        self._exchange.write(_DONE)
        self._exchange.end()

    def _final_usage(self) -> dict[str, object]:
        prompts = sum(len(choice.prompt) for choice in self._choices[:: self._sampling.choices])
        usage = _usage(prompts, sum(len(choice.tokens) for choice in self._choices))
        finished = self._choices[-1].finished
        usage["prompt_tokens_details"] = (
            {"cached_tokens": self._cached_tokens(finished)} if self._details and finished is not None else None
        )
        return usage


class ChoiceSink:
    """Engine output of one choice."""

    __slots__ = ("_choice", "_generation")

    def __init__(self, generation: Generation, choice: Choice) -> None:
        self._generation = generation
        self._choice = choice

    def on_output(self, tokens: tuple[int, ...], finished: Finished | None) -> None:
        self._generation.take(self._choice, tokens, finished)


def _event(value: object) -> bytes:
    return b"data: " + orjson.dumps(value) + b"\n\n"


def _usage(prompt: int, completion: int) -> dict[str, object]:
    return {"prompt_tokens": prompt, "total_tokens": prompt + completion, "completion_tokens": completion}
