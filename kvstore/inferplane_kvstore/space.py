"""Room for blocks of a few sizes in one stretch of bytes, without moving anything.

Problem: pools with different parallelism write blocks of different sizes, and what is mapped or on disk cannot be
compacted.  Idea: the stretch is cut into regions of equal size; the first block that needs one decides its stride, and
a region whose last block goes may take another stride.  Each region begins with a page that says its stride, so that a
restart finds every block without an index file.
Invariant: slots never overlap, and a slot is taken at most once.
"""

import struct
from dataclasses import dataclass, field
from typing import Final

from inferplane_kv_connector.envelope import HEADER_BYTES

PAGE: Final = 4096
REGION_MAGIC: Final = b"IPKVREG1"
_REGION: Final = struct.Struct("<8sQ")


def stride_of(payload_bytes: int) -> int:
    """Return how many bytes a block takes: header and bytes, in whole pages."""
    return -(-(HEADER_BYTES + payload_bytes) // PAGE) * PAGE


def region_header(stride: int) -> bytes:
    return _REGION.pack(REGION_MAGIC, stride)


def read_region_header(raw: bytes | memoryview) -> int | None:
    """Return the stride; None for a region that nothing was written to."""
    magic, stride = _REGION.unpack(raw[: _REGION.size])
    return int(stride) if magic == REGION_MAGIC and stride > 0 and stride % PAGE == 0 else None


@dataclass(slots=True)
class _Region:
    stride: int
    free: dict[int, None]
    """Offsets, the next to be taken last."""
    slots: int


@dataclass(slots=True)
class Space:
    """Offsets in bytes from the stretch's beginning."""

    capacity: int
    region_bytes: int
    _regions: dict[int, _Region] = field(default_factory=dict[int, _Region], init=False)
    _unbound: list[int] = field(default_factory=list[int], init=False)
    _partly: dict[int, dict[int, None]] = field(default_factory=dict[int, dict[int, None]], init=False)
    """Regions with room, by stride."""
    used: int = field(default=0, init=False)
    """Bytes in slots that are taken."""

    def __post_init__(self) -> None:
        self._unbound = list(range(self.regions - 1, -1, -1))

    @property
    def regions(self) -> int:
        return self.capacity // self.region_bytes

    def fits(self, stride: int) -> bool:
        return self.regions > 0 and stride <= self.region_bytes - PAGE

    def take(self, stride: int) -> tuple[int, bool] | None:
        """Return a slot and whether its region is new (its header must be written); None when there is no room."""
        partly = self._partly.get(stride)
        fresh = not partly
        if fresh:
            if not self._unbound or not self.fits(stride):
                return None
            self.bind(self._unbound[-1], stride)
        number = next(iter(self._partly[stride]))
        region = self._regions[number]
        offset, _ = region.free.popitem()
        if not region.free:
            del self._partly[stride][number]
        self.used += stride
        return offset, fresh

    def bind(self, number: int, stride: int) -> list[int]:
        """Give an unbound region a stride and return its slots."""
        self._unbound.remove(number)
        begin = number * self.region_bytes + PAGE
        slots = [begin + index * stride for index in range((self.region_bytes - PAGE) // stride)]
        self._regions[number] = _Region(stride, dict.fromkeys(reversed(slots)), len(slots))
        self._partly.setdefault(stride, {})[number] = None
        return slots

    def occupy(self, offset: int) -> None:
        """Take this very slot of a bound region."""
        number, region = self._region_of(offset)
        del region.free[offset]
        if not region.free:
            del self._partly[region.stride][number]
        self.used += region.stride

    def give(self, offset: int) -> None:
        number, region = self._region_of(offset)
        region.free[offset] = None
        self._partly[region.stride][number] = None
        self.used -= region.stride
        if len(region.free) == region.slots:
            del self._regions[number], self._partly[region.stride][number]
            self._unbound.append(number)

    def region_start(self, offset: int) -> int:
        return offset // self.region_bytes * self.region_bytes

    def _region_of(self, offset: int) -> tuple[int, _Region]:
        number = offset // self.region_bytes
        return number, self._regions[number]
