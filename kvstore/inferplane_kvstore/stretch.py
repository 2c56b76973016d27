"""A stretch of bytes that outlives processes: a file in memory (DRAM) or on disk (SSD), behind one protocol.

Problem: an engine or the store is killed at any moment, and its blocks should be there when it is back.  Idea: blocks
live in one file with their headers; a header is written after its bytes are safe, and blanked before its slot is used
again.  So after `kill -9` a slot holds a whole block or no header.
DRAM is a file on a tmpfs: memory that belongs to no process and that engines map by descriptor.  All of it is allocated
at the start, because a tmpfs that runs full later kills whoever touches the page.
Trade-off: two syncs a batch; batches are as large as the queue allows.
Invariant: a header is valid only after its bytes have been synced.
"""

import errno
import fcntl
import mmap
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Protocol

from inferplane_kv_connector.envelope import EMPTY, HEADER_BYTES, Header, pack, unpack
from inferplane_kvstore.errors import TierError
from inferplane_kvstore.space import PAGE, Space, read_region_header, region_header, stride_of

_SECTOR: Final = 512
"""What `st_blocks` counts in."""
Block = tuple[int, Header, memoryview]
"""Offset, header, bytes."""


class Stretch(Protocol):
    """Raises TierError."""

    def begin_region(self, start: int, stride: int) -> None: ...

    def blank(self, offsets: Sequence[int]) -> None:
        """Remove headers, so that nobody finds what stood there."""
        ...

    def write(self, blocks: Sequence[Block]) -> None:
        """Write bytes, then headers, and return when both are safe."""
        ...

    def read(self, offset: int, into: memoryview) -> Header | None:
        """Read a block's bytes; None when no header stands there."""
        ...

    def peek(self, offset: int, size: int) -> bytes: ...

    def close(self) -> None: ...


class MemoryStretch:
    """DRAM: readers and writers map it; the descriptor is theirs to have."""

    def __init__(self, path: Path, capacity: int) -> None:
        self.descriptor = _open(path, capacity)
        self.capacity = capacity
        self._map = mmap.mmap(self.descriptor, capacity)

    def begin_region(self, start: int, stride: int) -> None:
        raw = region_header(stride)
        self._map[start : start + len(raw)] = raw

    def blank(self, offsets: Sequence[int]) -> None:
        for offset in offsets:
            self._map[offset : offset + HEADER_BYTES] = EMPTY

    def stamp(self, offset: int, header: Header) -> None:
        """Write the header of bytes that an engine has put here."""
        self._map[offset : offset + HEADER_BYTES] = pack(header)

    def payload(self, offset: int, size: int) -> memoryview:
        return memoryview(self._map)[offset + HEADER_BYTES : offset + HEADER_BYTES + size]

    def record(self, offset: int, size: int) -> memoryview:
        """Return header and bytes of a block in one."""
        return memoryview(self._map)[offset : offset + HEADER_BYTES + size]

    def write(self, blocks: Sequence[Block]) -> None:
        for offset, header, payload in blocks:
            self.payload(offset, header.label.size)[:] = payload
            self.stamp(offset, header)

    def read(self, offset: int, into: memoryview) -> Header | None:
        header = unpack(self.peek(offset, HEADER_BYTES))
        if header is not None and header.label.size == len(into):
            into[:] = self.payload(offset, len(into))
        return header

    def peek(self, offset: int, size: int) -> bytes:
        return self._map[offset : offset + size]

    def close(self) -> None:
        os.close(self.descriptor)


class DiskStretch:
    """SSD: one file, written in batches with two syncs each."""

    def __init__(self, path: Path, capacity: int) -> None:
        self._descriptor = _open(path, capacity)
        # Not for memory: an engine that outlives a store holds that file, and a lock on it, with it.
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._descriptor)
            raise TierError(f"{path}: another store uses it; give each one a file of its own") from error

    def begin_region(self, start: int, stride: int) -> None:
        self._pwrite([region_header(stride)], start)

    def blank(self, offsets: Sequence[int]) -> None:
        for offset in offsets:
            self._pwrite([EMPTY], offset)

    def write(self, blocks: Sequence[Block]) -> None:
        for offset, _, payload in blocks:
            self._pwrite([payload], offset + HEADER_BYTES)
        self._sync()
        for offset, header, _ in blocks:
            self._pwrite([pack(header)], offset)
        self._sync()

    def read(self, offset: int, into: memoryview) -> Header | None:
        raw = bytearray(HEADER_BYTES)
        try:
            got = os.preadv(self._descriptor, [raw, into], offset)
        except OSError as error:
            raise TierError(f"reading failed: {error}") from error
        return unpack(bytes(raw)) if got == HEADER_BYTES + len(into) else None

    def peek(self, offset: int, size: int) -> bytes:
        try:
            return os.pread(self._descriptor, size, offset)
        except OSError as error:
            raise TierError(f"reading failed: {error}") from error

    def close(self) -> None:
        os.close(self._descriptor)

    def _pwrite(self, parts: Sequence[bytes | memoryview], offset: int) -> None:
        try:
            done = os.pwritev(self._descriptor, parts, offset)
        except OSError as error:
            raise TierError(f"writing failed: {error}") from error
        if done != sum(len(part) for part in parts):
            raise TierError("writing stopped half way: is the disk full?")

    def _sync(self) -> None:
        try:
            os.fdatasync(self._descriptor)
        except OSError as error:
            raise TierError(f"syncing failed: {error}") from error


def survivors(stretch: Stretch, space: Space) -> Iterator[tuple[int, Header]]:
    """Bind the regions that were in use and yield offset and header of every block in them, by reading headers only."""
    for number in range(space.regions):
        start = number * space.region_bytes
        stride = read_region_header(stretch.peek(start, PAGE).ljust(PAGE, b"\0"))
        if stride is None or not space.fits(stride):
            continue
        for offset in space.bind(number, stride):
            header = unpack(stretch.peek(offset, HEADER_BYTES))
            if header is not None and stride_of(header.label.size) == stride:
                yield offset, header


def _open(path: Path, capacity: int) -> int:
    """Open or create a file of exactly this size, all of it allocated, for this user alone."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if os.fstat(descriptor).st_size > capacity:
                os.ftruncate(descriptor, capacity)
            _allocate(descriptor, capacity)
        except OSError:
            os.close(descriptor)
            raise
    except OSError as error:
        raise TierError(f"{path}: {capacity} bytes cannot be had: {error.strerror}; give a smaller size") from error
    return descriptor


def _allocate(descriptor: int, capacity: int) -> None:
    # Asked first: to find out by allocating would fill the file system for everybody else, if only for a moment.
    system = os.fstatvfs(descriptor)
    if capacity - os.fstat(descriptor).st_blocks * _SECTOR > system.f_bavail * system.f_frsize:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    try:
        os.posix_fallocate(descriptor, 0, capacity)
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
            raise
        os.ftruncate(descriptor, capacity)
