"""Warming a KV store up from a list: each prompt is asked once, for one token, so that engines compute and keep it.

Problem: after an upgrade every conversation's beginning is computed by whoever comes first.  Idea: the gateway is asked
as any client would ask it, so prompts are rendered, named and placed as theirs will be; requests wait behind all
others.  What a worker has already costs it next to nothing, and its answer says how much that was.
Trade-off: of stores that share nothing, the one beside the worker that was chosen is warm.
Invariant: a prompt is noted as done after its answer only, so that whoever goes on after a break leaves nothing out.
"""

import asyncio
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from inferplane.errors import InvalidError

COMPLETIONS: Final = "/v1/completions"
CHAT: Final = "/v1/chat/completions"
_FIELDS: Final = {"prompt": COMPLETIONS, "messages": CHAT}
_ALLOWED: Final = frozenset({*_FIELDS, "model", "tools", "cache_salt"})


@dataclass(frozen=True, slots=True)
class Wanted:
    """A prompt of the list."""

    line: int
    path: str
    """Route of the gateway."""
    body: Mapping[str, Any]

    @property
    def digest(self) -> str:
        """By this it is known in the file of what is done; the prompt itself is not written there."""
        return hashlib.sha256(json.dumps([self.path, self.body], sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Answer:
    """What the worker that was chosen said of a prompt, in tokens."""

    prompt: int
    there: int
    """Of these it had computed before."""


@dataclass(frozen=True, slots=True)
class Refusal:
    why: str


class Gateway(Protocol):
    async def ask(self, wanted: Wanted, /) -> Answer | Refusal: ...


def read_list(text: str, *, model: str) -> list[Wanted]:
    """Read a list: a line is a JSON object with `prompt` or `messages`, or else a prompt as it stands.

    Raises InvalidError with the line, the field and the fix.
    """
    return [_wanted(number, line, model) for number, line in enumerate(text.splitlines(), start=1) if line.strip()]


def _wanted(number: int, line: str, model: str) -> Wanted:
    if not line.lstrip().startswith("{"):
        return _asking(number, COMPLETIONS, {"prompt": line}, model)
    try:
        found: Any = json.loads(line)
    except ValueError as error:
        raise InvalidError(f"line {number}: it is no JSON: {error}; a line that begins with {{ must be") from error
    unknown = sorted(found.keys() - _ALLOWED)
    if unknown:
        raise InvalidError(f"line {number}: {unknown[0]}: unknown field; use {', '.join(sorted(_ALLOWED))}")
    paths = [path for name, path in _FIELDS.items() if name in found]
    if len(paths) != 1:
        raise InvalidError(f"line {number}: it has {len(paths)} of `prompt` and `messages`; give one of the two")
    return _asking(number, paths[0], found, model)


def _asking(number: int, path: str, found: Mapping[str, Any], model: str) -> Wanted:
    return Wanted(number, path, {"model": model, **found, "max_tokens": 1, "temperature": 0})


@dataclass(frozen=True, slots=True)
class Done:
    """Which prompts are done, in a file of digests; without a file nothing is kept."""

    path: Path | None = None

    def read(self) -> frozenset[str]:
        """Raise InvalidError."""
        try:
            text = self.path.read_text(encoding="utf-8") if self.path is not None and self.path.exists() else ""
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidError(f"{self.path}: cannot be read ({error}); remove it to begin anew") from error
        return frozenset(text.split())

    def add(self, wanted: Wanted) -> None:
        """Raise InvalidError where the disk takes nothing."""
        if self.path is None:
            return
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(f"{wanted.digest}\n")
        except OSError as error:
            raise InvalidError(f"{self.path}: cannot be written: {error.strerror}; name another --progress") from error


@dataclass(slots=True)
class Sum:
    """What came of a list."""

    asked: int = 0
    left_out: int = 0
    """Were done before."""
    failed: int = 0
    tokens: int = 0
    there: int = 0
    """Tokens that were there already."""

    def words(self) -> str:
        said = [f"{self.asked - self.failed} prompts of {self.tokens} tokens, of which {self.there} were there already"]
        said += [f"{self.left_out} were done before"] if self.left_out else []
        said += [f"{self.failed} failed"] if self.failed else []
        return "; ".join(said)


@dataclass(slots=True)
class Warming:
    """Asks for what is not done, a few at once; `tell` is given a line a prompt."""

    gateway: Gateway
    done: Done
    tell: Callable[[str], None]
    at_once: int = 4
    sum: Sum = field(default_factory=Sum)

    async def run(self, wanted: Sequence[Wanted]) -> Sum:
        """Ask for everything that is not done yet.  Raises InvalidError."""
        before = self.done.read()
        left = [each for each in wanted if each.digest not in before]
        self.sum.left_out = len(wanted) - len(left)
        waiting, of = iter(left), len(left)

        async def work() -> None:
            for each in waiting:
                self._note(each, await self.gateway.ask(each), of)

        try:
            async with asyncio.TaskGroup() as group:
                for number in range(min(self.at_once, of)):
                    group.create_task(work(), name=f"warm-{number}")
        except* InvalidError as errors:  # the file of what is done takes no more
            raise errors.exceptions[0] from None
        return self.sum

    def _note(self, wanted: Wanted, said: Answer | Refusal, of: int) -> None:
        self.sum.asked += 1
        begin = f"{self.sum.asked}/{of} line {wanted.line}: "
        if isinstance(said, Refusal):
            self.sum.failed += 1
            self.tell(begin + said.why)
            return
        self.done.add(wanted)
        self.sum.tokens += said.prompt
        self.sum.there += said.there
        self.tell(f"{begin}{said.prompt} tokens, {said.there} there already")
