"""What happened since the start, by tier: the figures of `stat` and of a KVStore's status."""

from bisect import bisect_left
from dataclasses import asdict, dataclass, field
from typing import Any

from inferplane_kv_connector.wire import TIERS
from inferplane_runtime.metrics.buckets import FETCH_S

DRAM, SSD, REDIS = TIERS


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
    read_bytes: int = 0
    """Bytes brought from here into DRAM."""
    reads: list[int] = field(default_factory=lambda: [0] * (len(FETCH_S) + 1))
    """Reads by how long they took: one for each bound of `FETCH_S`, and one above."""
    read_s: float = 0.0
    """Seconds that reads took."""

    def note_read(self, size: int, took_s: float) -> None:
        """Count a read of a batch of blocks."""
        self.read_bytes += size
        self.read_s += took_s
        self.reads[bisect_left(FETCH_S, took_s)] += 1


@dataclass(slots=True)
class Counters:
    lookups: int = 0
    """Blocks asked for."""
    misses: int = 0
    tiers: dict[str, TierCounts] = field(default_factory=lambda: {name: TierCounts() for name in TIERS})

    def as_json(self) -> dict[str, Any]:
        return asdict(self)
