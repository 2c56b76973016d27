"""Which transport KV really takes, and whether it is worse than the one asked for.

Problem: libraries fall back from RDMA to TCP without a word, and transfers become ten times slower.  Idea: put together
what can be seen from beside the engine: active RDMA ports, and the lines in which UCX says which transports it chose.
Trade-off: without a log the agent can prove that RDMA is impossible, never that it is used.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_UCX_CHOICE: Final = re.compile(rb"(?:rma|tag|am)\w*\(([^)]*)\)")
_RDMA: Final = (b"rc_", b"ud_", b"dc_", b"rc/", b"ib/", b"mlx5")
_PORT_STATES = "sys/class/infiniband"


@dataclass(frozen=True, slots=True)
class Transport:
    """What WorkerStatus says."""

    name: str = ""
    degraded: bool = False
    detail: str = ""


def judge(asked: str, *, active_rdma_ports: int, chosen: str = "") -> Transport:
    """Weigh what was asked against what was seen; `chosen` is what the engine's own log says."""
    if not asked:
        return Transport(chosen)
    if chosen:
        worse = asked == "rdma" and chosen != "rdma"
        return Transport(chosen, worse, f"KV goes over {chosen} although {asked} was asked for" if worse else "")
    if asked == "rdma" and not active_rdma_ports:
        return Transport("tcp", degraded=True, detail="RDMA was asked for but no RDMA port is active")
    return Transport(asked)


def active_rdma_ports(root: Path = Path("/")) -> int:
    """Count ports whose state is ACTIVE; none where the kernel shows no such device."""
    states = (root / _PORT_STATES).glob("*/ports/*/state")
    return sum("ACTIVE" in _text(path) for path in states)


def chosen_by_ucx(lines: Iterable[bytes]) -> str:
    """Return "rdma", "tcp" or "shm" from UCX's configuration lines, the last one deciding; "" when there is none."""
    found = ""
    for line in lines:
        if b"ep_cfg" not in line:
            continue
        for match in _UCX_CHOICE.finditer(line):
            found = _kind(match.group(1)) or found
    return found


def _kind(names: bytes) -> str:
    if any(mark in names for mark in _RDMA):
        return "rdma"
    if b"tcp" in names:
        return "tcp"
    return "shm" if any(mark in names for mark in (b"sysv", b"posix", b"cma", b"knem", b"xpmem")) else ""


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
