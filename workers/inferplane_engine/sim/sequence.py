"""One request on its way through the engine: tokens, block tables, state; mutable, owned by the core."""

from collections.abc import Sequence as Items
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import cast

from inferplane_engine.sim.content import Vocabulary, block_content, fold, seed_state
from inferplane_engine.sim.events import EngineRequest, ExtraKeys


class Phase(Enum):
    WAITING = auto()
    PULLING = auto()
    RUNNING = auto()
    FINISHED = auto()


@dataclass(slots=True)
class Writer:
    """Says the tokens that follow a prefilled sequence; may run ahead of the engine's clock.

    What it says depends on the state it was given and on itself alone, so saying it early changes nothing.
    """

    vocabulary: Vocabulary
    block_size: int
    state: int
    tail: list[int]
    sample: int
    stop_tokens: frozenset[int]
    ignore_eos: bool
    min_tokens: int
    damage: "Damage"
    said: list[int] = field(default_factory=list[int])
    count: int = 0
    """Output tokens before `said`, for `min_tokens`."""
    tail_extra: ExtraKeys | None = None
    """What multimodal inputs add to the incomplete block."""

    def say(self, until: int) -> None:
        """Extend `said` to `until` tokens, or to the token that ends the answer."""
        while len(self.said) < until and not (self.said and self.ends(self.said[-1])):
            may_end = not self.ignore_eos and self.count + len(self.said) >= self.min_tokens
            token = self.vocabulary.next_token(self.state, self.tail, self.sample, may_end=may_end)
            self.said.append(token)
            self.tail.append(token)
            if len(self.tail) == self.block_size:
                self.state = fold(self.state, self.damage(block_content(self.state, self.tail, self.tail_extra)))
                self.tail, self.tail_extra = [], None

    def ends(self, token: int) -> bool:
        return (token == self.vocabulary.eos and not self.ignore_eos) or token in self.stop_tokens


class Damage:
    """Leaves contents as they are; the fault injector overrides it.

    A pure function of the content, so that it does not matter in which order blocks are filled.
    """

    def __call__(self, content: int) -> int:
        return content


@dataclass(slots=True, eq=False)
class Sequence:
    request: EngineRequest
    max_tokens: int
    submitted_at: float
    groups: int
    tokens: list[int] = field(default_factory=list[int])
    """Prompt and output; nothing where the request is outlined."""
    length: int = 0
    """Tokens of prompt and output."""
    phase: Phase = Phase.WAITING
    computed: int = 0
    """Tokens whose KV is held."""
    tables: list[list[int]] = field(default_factory=list[list[int]])
    stored: list[int] = field(default_factory=list[int])
    """Per group: leading blocks that were found in, or entered, the prefix cache."""
    hashes: list[int] = field(default_factory=list[int])
    state: int = 0
    folded: int = 0
    """Leading blocks that `state` covers."""
    writer: Writer | None = None
    spoken: int = 0
    """Tokens of the writer that have been given out."""
    preemptions: int = 0
    scheduled_at: float = float("nan")
    first_token_at: float = float("nan")
    local_cached: int = -1
    external_cached: int = 0
    pull_started_at: float = float("nan")
    source_used: bool = False
    prompt_length: int = 0
    full_length: int = 0
    """Tokens at which the answer ends for its length."""

    def __post_init__(self) -> None:
        self.tokens = list(self.request.prompt)
        self.prompt_length = self.length = self.request.prompt_tokens
        self.full_length = self.prompt_length + self.max_tokens
        self.forget()

    @property
    def outputs(self) -> int:
        return self.length - self.prompt_length

    def forget(self) -> None:
        """Hold nothing: as before the first step, or after a preemption."""
        self.computed = 0
        self.tables = [[] for _ in range(self.groups)]
        self.stored = [0] * self.groups
        self.state = seed_state(self.request.adapter)
        self.folded = 0
        self.writer = None
        self.spoken = 0

    def extra_keys(self, block: int) -> ExtraKeys | None:
        """Return what vLLM adds to a block's identity: adapter, multimodal inputs, salt of the first block."""
        request = self.request
        keys: ExtraKeys = (request.adapter,) if request.adapter else ()
        if request.extra_keys:
            keys += request.extra_keys.get(block, ())
        if block == 0 and request.salt:
            keys += (request.salt,)
        return keys or None

    def media_keys(self, block: int) -> ExtraKeys | None:
        """Return the part of the extra keys that stands for computed content, beyond adapter and salt."""
        return self.request.extra_keys.get(block) if self.request.extra_keys else None

    def block_hashes(self, block_size: int) -> Items[int]:
        """Chained hashes of all full blocks of tokens known so far, and of later ones where they are given."""
        if self.request.outline is not None:
            return cast("Items[int]", self.request.outline.hashes)  # an array will do: nothing else is asked of it
        while (len(self.hashes) + 1) * block_size <= len(self.tokens):
            index = len(self.hashes)
            parent = self.hashes[-1] if self.hashes else 0
            block = self.tokens[index * block_size : (index + 1) * block_size]
            self.hashes.append(block_content(parent, block, self.extra_keys(index)))
        return self.hashes
