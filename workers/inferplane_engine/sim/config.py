"""What a simulated engine is made of: sizes, groups, policies; the defaults are vLLM's."""

from dataclasses import dataclass
from enum import StrEnum


class GroupKind(StrEnum):
    """Kinds of KV cache groups, spelt as vLLM's events spell them."""

    FULL = "full_attention"
    SLIDING = "sliding_window"


@dataclass(frozen=True, slots=True)
class KvGroup:
    """Layers that share a block table."""

    kind: GroupKind = GroupKind.FULL
    window: int | None = None
    """Tokens that a sliding-window layer attends to."""


class LoadFailurePolicy(StrEnum):
    """What a consumer does when a transfer fails."""

    FAIL = "fail"
    RECOMPUTE = "recompute"


@dataclass(frozen=True, slots=True)
class Speculation:
    """Draft tokens per step and the chance that each is accepted."""

    tokens: int
    accept_rate: float
    drop_block: bool = True
    """The draft head wants the last matching block computed again (EAGLE, MTP)."""


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """Sizes and policies of one engine core (one data-parallel rank)."""

    block_size: int = 16
    blocks: int = 4096
    """Physical blocks, of which one is the null block."""
    max_model_len: int = 32_768
    max_num_seqs: int = 256
    max_num_batched_tokens: int = 2048
    prefix_caching: bool = True
    groups: tuple[KvGroup, ...] = (KvGroup(),)
    speculation: Speculation | None = None
    lease_s: float = 30.0
    """A producer keeps blocks this long for a consumer that has not asked yet."""
    load_failure: LoadFailurePolicy = LoadFailurePolicy.FAIL
    cache_events: bool = True
    """Say what enters and leaves the prefix cache."""
    exact: bool = True
    """Step one by one; False: compute runs of plain decode steps at once."""
    content: bool = True
    """Compute contents and tokens; False: time and blocks only (tokens are the vocabulary's first word)."""
    every_token: bool = True
    """Say every token; False: only the first of an answer, for whoever counts nothing but times."""

    def __post_init__(self) -> None:
        if self.groups[0].kind is not GroupKind.FULL:
            raise ValueError("groups: the first group must be full attention")
        if any((group.kind is GroupKind.SLIDING) != (group.window is not None) for group in self.groups):
            raise ValueError("groups: a window belongs to sliding-window groups and only to them")
        for name in ("block_size", "max_model_len", "max_num_seqs", "max_num_batched_tokens"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: must be at least 1")
        needed = sum(self.blocks_for(group, self.max_model_len) for group in self.groups)
        if self.blocks - 1 < needed:
            raise ValueError(
                f"blocks: one request of max_model_len {self.max_model_len} needs {needed} blocks, there are "
                f"{self.blocks - 1}; raise the number of blocks or lower max_model_len"
            )

    def blocks_for(self, group: KvGroup, tokens: int) -> int:
        """Count the most blocks that a group holds at once for a sequence of `tokens` tokens."""
        whole = -(-tokens // self.block_size)
        if group.window is None:
            return whole
        return min(whole, -(-(group.window + self.max_num_batched_tokens) // self.block_size) + 1)
