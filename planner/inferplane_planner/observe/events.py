"""What is heard of single requests, as values; times in seconds, NaN where not observed."""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finished:
    """A request that was answered."""

    request_id: str
    prompt: int
    cached: int
    """Prompt tokens that the computing side had."""
    output: int
    ttft_s: float
    """From its arrival at the router."""
    tpot_s: float = math.nan
    decode_s: float = math.nan
    prefill_s: float = math.nan
    transfer_s: float = math.nan
    transferred: int = 0
    held: int = 0
    """Prompt tokens that the decode side had before the transfer."""
    apart: bool = False
    """Another worker computed the prompt."""
    doubt: str = ""
    """Why the router did not believe what the computing worker said it holds; "": it did."""

    @property
    def uncached(self) -> int:
        return max(0, self.prompt - self.cached)
