"""What this machine has: accelerators to hand out, memory that is left.

Kubernetes' scheduler does this for Pods; locally it is a subtraction.  A worker whose devices are not free waits in
phase Pending and says what it waits for; it is never started on devices that another worker holds.
"""

import shutil
import subprocess
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from inferplane_operator.local.statedir import StateError

_NVIDIA_SMI_TIMEOUT_S = 20.0
_MEMORY_MARGIN = 1.1
"""One more worker fits when this many times the memory of a like one is free."""


@dataclass(frozen=True, slots=True)
class Machine:
    """Devices by their id, in the order in which they are handed out."""

    gpus: tuple[str, ...] = ()


def find_gpus(choice: str) -> tuple[str, ...]:
    """Resolve `auto`, `none` or a list of ids to the devices that may be used."""
    if choice == "none":
        return ()
    if choice == "auto":
        return _ask_nvidia_smi()
    ids = tuple(part.strip() for part in choice.split(","))
    if not all(ids) or len(set(ids)) != len(ids):
        raise StateError(f"--gpus {choice!r}: expected auto, none, or distinct device ids such as 0,1")
    return ids


def _ask_nvidia_smi() -> tuple[str, ...]:
    program = shutil.which("nvidia-smi")
    if program is None:
        return ()
    query = [program, "--query-gpu=index", "--format=csv,noheader"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, check=True, timeout=_NVIDIA_SMI_TIMEOUT_S)  # noqa: S603  fixed arguments
    except (OSError, subprocess.SubprocessError):
        return ()  # a driver without devices: the same as no driver
    return tuple(line.strip() for line in done.stdout.splitlines() if line.strip().isdecimal())


def assign_gpus(wanted: int, machine: Machine, taken: Collection[str]) -> tuple[str, ...] | None:
    """Return `wanted` free devices, or None when there are not enough."""
    free = [gpu for gpu in machine.gpus if gpu not in taken]
    return tuple(free[:wanted]) if len(free) >= wanted else None


def memory_available() -> int | None:
    """Return the bytes that new processes can have without swapping; None where it is not known."""
    return _kib_field(Path("/proc/meminfo"), "MemAvailable")


def memory_of(pids: Sequence[int]) -> int | None:
    """Return the resident bytes of these processes together; None where it is not known."""
    sizes = [_kib_field(Path(f"/proc/{pid}/status"), "VmRSS") for pid in pids]
    known = [size for size in sizes if size is not None]
    return sum(known) if known else None


def fits_beside(like: int | None, available: int | None) -> bool:
    """Whether one more worker of `like` bytes fits; what is not known does not forbid."""
    return like is None or available is None or available >= like * _MEMORY_MARGIN


def _kib_field(file: Path, name: str) -> int | None:
    try:
        lines = file.read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    found = next((line for line in lines if line.startswith(f"{name}:")), None)
    return int(found.split()[1]) * 1024 if found else None
