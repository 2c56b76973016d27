"""What is measured of an engine: prompts by length and by what is cached before them, steps by batch and context."""

from dataclasses import dataclass

from inferplane_planner.core.errors import PlanningError


@dataclass(frozen=True, slots=True, order=True)
class PrefillPoint:
    """A prompt of `cached` + `tokens` tokens, of which the first are in the engine's cache."""

    tokens: int
    cached: int = 0


@dataclass(frozen=True, slots=True, order=True)
class DecodePoint:
    """So many sequences at once, each with a prompt of `context` tokens."""

    batch: int
    context: int


@dataclass(frozen=True, slots=True)
class Sample:
    """One point, measured: the time of the whole prompt, or the mean time of a step, in seconds."""

    point: PrefillPoint | DecodePoint
    seconds: float
    kv_tokens: float = 0.0
    """Mean tokens of context in the batch while it was measured, for a DecodePoint."""


@dataclass(frozen=True, slots=True)
class Grid:
    """`longest` must not exceed what one step of the engine computes, `most` not what it runs at once."""

    longest: int = 2048
    most: int = 16
    context: int = 1024

    def __post_init__(self) -> None:
        for name, least in (("longest", 256), ("most", 2), ("context", 64)):
            if getattr(self, name) < least:
                raise PlanningError(name, f"{getattr(self, name)} is too few", f"give {least} or more")

    def points(self) -> list[PrefillPoint | DecodePoint]:
        """Return all points, the quick ones first."""
        lengths = [1, 8, *(self.longest * share // 8 for share in range(1, 9))]
        cached = [PrefillPoint(self.longest // 2, self.longest * times) for times in (1, 2)]
        batches = sorted({1, 2, self.most // 2, self.most})
        contexts = [16, self.context]
        decode = [DecodePoint(batch, context) for context in contexts for batch in batches]
        return [*(PrefillPoint(tokens) for tokens in lengths), *cached, *decode]
