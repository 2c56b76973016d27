"""One request on its way, from its arrival to its answer or its end; owned by the loop."""

import math
from dataclasses import dataclass
from enum import StrEnum

from inferplane_planner.workload import Request
from inferplane_router.core.values import Ask, Hashes, Routed


class End(StrEnum):
    """How a request ended."""

    ANSWERED = "answered"
    REFUSED = "refused"
    """No place in time, or none at all."""
    BROKEN = "broken"
    """Its worker died in the middle of the answer."""
    UNFINISHED = "unfinished"
    """The run ended before the answer did."""
    TOO_LONG = "too_long"
    """No engine has room for prompt and answer."""


@dataclass(slots=True, eq=False)
class Journey:
    """Times in seconds since the run began; tokens where not said otherwise."""

    name: str
    request: Request
    router: int
    ask: Ask
    prompt_tokens: int
    hashes: Hashes
    """Names of the full blocks of prompt and answer."""
    ideal_tokens: int = 0
    """Prompt tokens that a cache without end would have had."""
    routed: Routed | None = None
    decode: str = ""
    prefill: str = ""
    """Worker that computes the prompt, where it is not the decode worker."""
    prefill_sent_s: float = math.nan
    prefilled_s: float = math.nan
    """When the prefill worker had answered."""
    transferred_tokens: int = 0
    cached_tokens: int = 0
    """Prompt tokens that the computing side had."""
    first_token_s: float = math.nan

    @property
    def begun(self) -> bool:
        """Whether the client has a first token."""
        return not math.isnan(self.first_token_s)
