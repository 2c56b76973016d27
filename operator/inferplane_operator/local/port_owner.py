"""Which process listens on a port, where the system lets us know: the one question that "address in use" raises.

Linux tells by joining /proc/net/tcp (port -> socket inode) with /proc/PID/fd (inode -> process); of other users'
processes only root sees the descriptors.  Elsewhere, or when it is not to be seen, the answer is None.
"""

import socket
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_LISTEN = "0A"
_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))


@dataclass(frozen=True, slots=True)
class PortOwner:
    pid: int
    command: str

    def __str__(self) -> str:
        return f"{self.command} (pid {self.pid})"


def is_free(port: int, host: str = "127.0.0.1") -> bool:
    """Whether a server could listen there now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def complaint(port: int) -> str:
    """Say that a port is taken, by whom if that can be known, and what to do; empty when it is free."""
    if is_free(port):
        return ""
    by = owner(port)
    return f"port {port} is in use{f' by {by}' if by else ''}; stop it or choose another with --port"


def owner(port: int) -> PortOwner | None:
    """Return the process that listens on `port`, when it can be known."""
    inodes = {row[9] for row in _rows() if row[3] == _LISTEN and int(row[1].rpartition(":")[2], 16) == port}
    if not inodes:
        return None
    targets = {f"socket:[{inode}]" for inode in inodes}
    return next((PortOwner(pid, _command(pid)) for pid, target in _descriptors() if target in targets), None)


def _rows() -> Iterator[list[str]]:
    for table in _TABLES:
        with suppress(OSError):
            yield from (line.split() for line in table.read_text(encoding="ascii").splitlines()[1:])


def _descriptors() -> Iterator[tuple[int, str]]:
    if not Path("/proc").is_dir():
        return
    for process in Path("/proc").iterdir():
        if not process.name.isdecimal():
            continue
        with suppress(OSError):  # not ours to see, or just gone
            for descriptor in (process / "fd").iterdir():
                with suppress(OSError):
                    yield int(process.name), str(descriptor.readlink())


def _command(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return "?"
    return b" ".join(words).decode("utf-8", errors="replace").strip()[:120] or "?"
