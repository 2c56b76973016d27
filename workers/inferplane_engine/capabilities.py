"""What each engine can do, as flags: code branches on a flag, never on an engine's name.

An agent announces its engine's flags on its stream by value, so a router that is older or newer than the agent reads
plain words; a word that it does not know means nothing to it.
Versions differ: the table speaks of the versions that are tested, `Capability` values are added and never renamed.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from inferplane_api.v1alpha1.engine_names import EngineType


class Capability(StrEnum):
    KV_EVENTS = "kv-events"
    """Publishes stored and removed KV blocks."""
    KV_EVENTS_REPLAY = "kv-events-replay"
    """Repeats recent event batches on request, so a gap can be closed."""
    HANDOFF_SEQUENTIAL = "handoff-sequential"
    """P/D: prefill answers with transfer parameters, then decode pulls."""
    HANDOFF_CONCURRENT = "handoff-concurrent"
    """P/D: both halves are sent at once and meet on a room number."""
    DECODE_CAN_PREFILL = "decode-can-prefill"
    """A decode engine can run a prompt itself: the fall-back when prefill is gone."""
    HANDOFF_MULTIPLE_CHOICES = "handoff-multiple-choices"
    """n > 1 and lists of prompts survive a hand-off."""
    RECOMPUTES_FAILED_LOADS = "recomputes-failed-loads"
    """A transfer that fails costs time and not the request."""
    CACHED_TOKEN_USAGE = "cached-token-usage"  # noqa: S105 - a word of the protocol, no secret
    """Usage says how many prompt tokens came from the cache."""
    PROMPT_TOKENS_DETAILS = "prompt-tokens-details"
    """That number is in `usage.prompt_tokens_details`, if asked for at start."""
    CONTINUOUS_USAGE = "continuous-usage"
    """Streams can carry usage in every chunk, so an aborted one is counted exactly."""
    CACHE_SALT = "cache-salt"
    """A request's salt separates its KV blocks, and events carry it."""
    TOKENIZE_ENDPOINT = "tokenize-endpoint"
    """Serves /tokenize and /detokenize."""
    TOKENS_IN = "tokens-in"
    """Completions take token ids as the prompt."""
    DP_RANKS = "dp-ranks"
    """A request can name its data-parallel rank."""
    LORA = "lora"
    """Serves adapters."""
    LORA_RUNTIME = "lora-runtime"
    """Loads and unloads adapters while it runs."""
    SLEEP = "sleep"
    """Can give its memory back and wake up."""
    QUEUE_LIMIT = "queue-limit"
    """Refuses requests beyond a queue length instead of keeping them."""
    DRAINS_ON_TERM = "drains-on-term"
    """Finishes running requests after SIGTERM, within a limit."""
    FAULT_INJECTION = "fault-injection"
    """Fails on purpose."""


_VLLM: Final = frozenset(
    {
        Capability.KV_EVENTS,
        Capability.KV_EVENTS_REPLAY,
        Capability.HANDOFF_SEQUENTIAL,
        Capability.DECODE_CAN_PREFILL,
        Capability.RECOMPUTES_FAILED_LOADS,
        Capability.CACHED_TOKEN_USAGE,
        Capability.PROMPT_TOKENS_DETAILS,
        Capability.CONTINUOUS_USAGE,
        Capability.CACHE_SALT,
        Capability.TOKENIZE_ENDPOINT,
        Capability.TOKENS_IN,
        Capability.DP_RANKS,
        Capability.LORA,
        Capability.LORA_RUNTIME,
        Capability.SLEEP,
        Capability.QUEUE_LIMIT,
        Capability.DRAINS_ON_TERM,
    }
)
_SGLANG: Final = frozenset(
    {
        Capability.KV_EVENTS,
        Capability.KV_EVENTS_REPLAY,
        Capability.HANDOFF_CONCURRENT,
        Capability.CACHED_TOKEN_USAGE,
        Capability.PROMPT_TOKENS_DETAILS,
        Capability.CONTINUOUS_USAGE,
        Capability.CACHE_SALT,
        Capability.TOKENIZE_ENDPOINT,
        Capability.TOKENS_IN,
        Capability.DP_RANKS,
        Capability.LORA,
        Capability.LORA_RUNTIME,
        Capability.SLEEP,
    }
)
_SIM: Final = (_VLLM - {Capability.SLEEP}) | {Capability.FAULT_INJECTION}

CAPABILITIES: Final[Mapping[EngineType, frozenset[Capability]]] = MappingProxyType(
    {EngineType.VLLM: _VLLM, EngineType.SGLANG: _SGLANG, EngineType.SIM: _SIM}
)


def capabilities_of(engine: EngineType) -> frozenset[Capability]:
    return CAPABILITIES[engine]
