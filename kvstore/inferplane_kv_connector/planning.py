"""Which blocks of which request are loaded and saved in a step: the scheduler's half, without engine and I/O.

Problem: an engine reuses its memory at once, guesses tokens that it takes back, and preempts requests; a block saved at
the wrong moment holds other tokens than its name says.
Idea: a block is saved in the step that computes its last token, and only if all of its tokens are known to be final by
then.  Where tokens are guessed, only prompts are saved.  A request loads at most once: if its blocks turn out to be
gone or bad, the engine computes them, and is not offered them again.
Invariant: a block is named by the tokens that the engine has for its positions, whatever happens to the request.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from inferplane_kv_connector.keys import extend
from inferplane_kv_connector.marks import UNMARKED, Marker
from inferplane_kv_connector.worth import Worth


@dataclass(frozen=True, slots=True)
class Move:
    """One block between the store and the engine's memory."""

    key: bytes
    block: int
    """Number of the block in the engine's memory."""


@dataclass(frozen=True, slots=True)
class Save:
    key: bytes
    block: int
    owner: bytes
    mark: int = UNMARKED


@dataclass(slots=True)
class RequestPlan:
    """What is known of one request."""

    root: bytes
    owner: bytes
    block_size: int
    prompt_tokens: int
    guesses: bool
    """The engine guesses tokens."""
    marker: Marker | None = None
    """None: routers have no names for these blocks."""
    keys: list[bytes] = field(default_factory=list[bytes])
    marks: list[int] = field(default_factory=list[int])
    blocks: list[int] = field(default_factory=list[int])
    """The engine's block numbers, from the request's first block."""
    saved: int = 0
    """Blocks from the first that need no saving any more."""
    may_load: bool = True
    wanted: int | None = None
    """Blocks from the first that are worth loading; None: not asked yet."""
    load_from: int = 0
    """Block at which an offered load begins."""

    def name(self, tokens: Sequence[int]) -> list[bytes]:
        """Name all whole blocks of `tokens`, the request's from its first one; return all names."""
        known = len(self.keys)
        if len(tokens) // self.block_size > known:
            parent = self.keys[-1] if known else self.root
            new = tokens[known * self.block_size :]
            self.keys += extend(parent, new, self.block_size)
            if self.marker is not None:
                self.marks += self.marker.extend(self.marks, new)
        return self.keys

    def offer(self, tiers: Sequence[str], computed: int, tokens: int, worth: Worth) -> int:
        """Return how many tokens to load after the `computed` ones, given where the store has the first blocks.

        The last token is always left to the engine: its output is what the request waits for.
        """
        self.saved = max(self.saved, len(tiers))
        first, usable = computed // self.block_size, min(len(tiers), (tokens - 1) // self.block_size)
        if not self.may_load or computed % self.block_size or usable <= first:
            return 0
        if self.wanted is None:
            self.wanted = first + worth.choose(tiers[first:usable])
        self.load_from = first
        return max(0, min(usable, self.wanted) - first) * self.block_size

    def load(self, blocks: Sequence[int], tokens: int) -> list[Move]:
        """Return the moves of an offered load, now that the engine has made room for `tokens` tokens."""
        if not tokens or not self.may_load:
            return []
        self.may_load = False
        until = self.load_from + tokens // self.block_size
        span = slice(self.load_from, until)
        return [Move(key, block) for key, block in zip(self.keys[span], blocks[span], strict=True)]

    def place(self, blocks: Sequence[int], *, anew: bool) -> None:
        """Note blocks that the engine gave the request; `anew`: it begins again, with these."""
        if anew:
            self.blocks = list(blocks)
        else:
            self.blocks += blocks

    def computed(self, until: int, tokens: Sequence[int]) -> list[Save]:
        """Return what to save after a step at whose end the engine has computed `until` tokens."""
        certain = min(until, self.prompt_tokens if self.guesses else len(tokens))
        whole = min(certain // self.block_size, len(self.blocks))
        if whole <= self.saved:
            return []
        self.name(tokens[: whole * self.block_size])
        new = range(self.saved, whole)
        self.saved = whole
        return [Save(self.keys[index], self.blocks[index], self.owner, self._mark(index)) for index in new]

    def _mark(self, index: int) -> int:
        return self.marks[index] if self.marks else UNMARKED
