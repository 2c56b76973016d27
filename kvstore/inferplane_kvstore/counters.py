"""What happened since the start, by tier: the figures of `stat` and of a KVStore's status."""

from dataclasses import asdict, dataclass, field
from typing import Any, Final

DRAM: Final = "dram"
SSD: Final = "ssd"
REDIS: Final = "redis"
TIERS: Final = (DRAM, SSD, REDIS)


@dataclass(slots=True)
class TierCounts:
    hits: int = 0
    """Blocks found here first."""
    corrupt: int = 0
    """Blocks whose checksum was wrong."""
    written: int = 0
    """Blocks written."""
    failed: int = 0
    """Operations that the medium failed."""
    dropped: int = 0
    """Blocks that were to be written and were not: the queue was full, or there was no room."""


@dataclass(slots=True)
class Counters:
    lookups: int = 0
    """Blocks asked for."""
    misses: int = 0
    tiers: dict[str, TierCounts] = field(default_factory=lambda: {name: TierCounts() for name in TIERS})

    def as_json(self) -> dict[str, Any]:
        return asdict(self)
