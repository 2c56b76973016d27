"""What a program of several processes uses, and how its connections are spread over them."""

import asyncio
import time
from collections import Counter
from pathlib import Path

_CLOCK_BITS, _CPU_OF_PROCESS = 3, 2
"""How Linux names the clock of another process (clock_getcpuclockid)."""
_ESTABLISHED = "01"
_TAKEN_WITHIN_S = 20.0


def family(pid: int) -> list[int]:
    """Return a process and its children."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += map(int, (task / "children").read_text().split())
    return found


def cpu_s(pid: int) -> float:
    """Return the CPU time of a process and its children."""
    return sum(_own_cpu_s(each) for each in family(pid))


def pss_mib(pid: int) -> float:
    """Return the memory of a process and its children; what they share counts once."""
    return sum(_own_mib(each, "Pss") for each in family(pid))


def anonymous_mib(pid: int) -> float:
    """Return what a process and its children have written: it grows with nothing that others map or unmap."""
    return sum(_own_mib(each, "Pss_Anon") for each in family(pid))


async def split(port: int, pid: int, *, connections: int = 1000) -> list[int]:
    """Open connections, and return how many each process has of them."""
    opened = [await asyncio.open_connection("127.0.0.1", port) for _ in range(connections)]
    async with asyncio.timeout(_TAKEN_WITHIN_S):
        while sum(held := _shares(port, pid)) < connections:  # noqa: ASYNC110 - other processes take them
            await asyncio.sleep(0.1)
    for _, writer in opened:
        writer.transport.abort()
    return sorted(count for count in held if count)


def _shares(port: int, pid: int) -> list[int]:
    inodes = _accepted(port)
    return [_held(each, inodes) for each in family(pid)]


def _own_cpu_s(pid: int) -> float:
    """Ask the process's own clock: /proc counts ticks of ten milliseconds, which is many a request."""
    return time.clock_gettime(~pid << _CLOCK_BITS | _CPU_OF_PROCESS)


def _own_mib(pid: int, what: str) -> float:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{what}:")) / 1024


def _accepted(port: int) -> set[str]:
    """Return the inodes of the sockets that are connected to this port on the server's side."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return {row[9] for row in rows if row[3] == _ESTABLISHED and int(row[1].rpartition(":")[2], 16) == port}


def _held(pid: int, inodes: set[str]) -> int:
    links: Counter[str] = Counter()
    for each in Path(f"/proc/{pid}/fd").iterdir():
        try:
            links[each.readlink().name.removeprefix("socket:[").removesuffix("]")] += 1
        except FileNotFoundError:
            continue  # it was closed meanwhile
    return sum(links[inode] for inode in inodes)
