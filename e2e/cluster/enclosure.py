"""Namespaces that hold a whole cluster: processes, mounts and network end together, whatever happened before.

Problem: a cluster leaves dozens of processes, hundreds of mounts, bridges and packet filter rules, and a test run that
is killed cleans up nothing.  Idea: everything starts inside a PID, a mount and a network namespace.  When the first
process of a PID namespace ends, the kernel kills all others in it; mounts, interfaces and rules go with the last of
them.  That first process ends with the one that made the enclosure.  Only control groups are outside: empty by then,
they are removed at the end, or by the next start.

Inside, `/run` is new, with the run's folder as `/run/state`, so paths are short and the same for every cluster; what
is written below `/var/lib` and `/var/log` goes to the run's folder as well, and the machine's own is not touched.

Invariant: no path and no port of the host is shared with another cluster on this machine.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from e2e.cluster.binaries import path_of

STATE: Final = Path("/run/state")
"""The run's folder as processes inside see it."""
NAMESPACES: Final = ("--mount", "--pid", "--net")
_CLONE_NEWNET: Final = 0x40000000
CGROUPS: Final = Path("/sys/fs/cgroup")
_SHARES: Final[Mapping[str, str]] = {"cpu.shares": "10240", "cpu.weight": "1000"}
"""Ten times what a single process has: dozens of processes in one group would share what one gets beside it."""
_PREPARE: Final = """
set -e
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/state /run/netns /run/lock
mount --bind "$1" /run/state
for folder in lib log; do
    layers="/run/state/var-$folder"
    mkdir -p "$layers/upper" "$layers/work"
    mount -t overlay -o "lowerdir=/var/$folder,upperdir=$layers/upper,workdir=$layers/work" overlay "/var/$folder"
done
ip link set lo up
ip link add node0 type bridge
ip address add "$2/32" dev node0
ip link set node0 up
for network in $3; do ip route add "$network" dev node0; done
sysctl -qw net.ipv4.ip_forward=1
sysctl -qw net.bridge.bridge-nf-call-iptables=1 2>/dev/null || true
"""


class EnclosureError(Exception):
    """The namespaces could not be made."""


@dataclass(slots=True)
class Enclosure:
    """Running namespaces; `init` is `unshare`, whose only child is their first process."""

    folder: Path
    address: str
    name: str
    init: subprocess.Popen[bytes]
    pid: int
    outer_network: int
    """An open file: the network of the thread that made this."""

    @classmethod
    def make(cls, folder: Path, *, address: str, name: str, routes: Sequence[str] = ()) -> Self:
        """Make the namespaces, with `address` on an interface that is always up.

        `routes` are networks without a place, whose packets are rewritten on their way out: those of Services.
        """
        folder.mkdir(parents=True, exist_ok=True)
        command = ["setpriv", "--pdeathsig", "KILL", "--", "unshare", "--fork", "--kill-child=KILL", "--mount-proc"]
        command += [*NAMESPACES, "--propagation=private", "--", str(path_of("pause"))]
        with (folder / "enclosure.log").open("wb") as log:
            init = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        enclosure = cls(folder, address, name, init, child_of(init), os.open("/proc/self/ns/net", os.O_RDONLY))
        _make_groups(name)
        prepared = enclosure.run(["/bin/sh", "-c", _PREPARE, "prepare", str(folder), address, " ".join(routes)])
        if prepared.returncode:
            enclosure.end()
            raise EnclosureError(f"namespaces could not be prepared: {prepared.stderr.decode()}")
        return enclosure

    def inside(self, command: Sequence[str | Path]) -> list[str]:
        """Return the command line that runs `command` in the namespaces."""
        return ["nsenter", "--target", str(self.pid), *NAMESPACES, "--", *map(str, command)]

    def run(
        self, command: Sequence[str | Path], *, env: Mapping[str, str] | None = None, stdin: bytes = b""
    ) -> subprocess.CompletedProcess[bytes]:
        """Run to the end; the caller looks at the result."""
        return subprocess.run(self.inside(command), env=env, input=stdin, capture_output=True, check=False)

    def enter_network(self) -> None:
        """Put the calling thread, and what it starts later, into the cluster's network."""
        network = os.open(f"/proc/{self.pid}/ns/net", os.O_RDONLY)
        try:
            _enter(network)
        finally:
            os.close(network)

    @contextlib.contextmanager
    def outside(self) -> Generator[None]:
        """Put the calling thread back into the machine's network for a while."""
        _enter(self.outer_network)
        try:
            yield
        finally:
            self.enter_network()

    def end(self) -> None:
        """End everything inside at once, and remove the control groups that are left."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self.init.wait()
        os.close(self.outer_network)
        remove_groups(self.name)


def _enter(network: int) -> None:
    if ctypes.CDLL(None, use_errno=True).setns(network, _CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "the cluster's network cannot be entered; that needs root")


def child_of(process: subprocess.Popen[bytes], limit_s: float = 10) -> int:
    """Return the process that `unshare` or `nsenter` started: their only child, once it is there."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            if found := children.read_text().split():
                return int(found[0])
        if process.poll() is not None:
            raise EnclosureError(f"{process.args!r} ended with {process.returncode}")
        time.sleep(0.005)
    raise EnclosureError(f"{process.args!r} started nothing in {limit_s} s")


def hierarchies(root: Path = CGROUPS) -> Iterator[Path]:
    """Yield the roots of control groups: one, or with version 1 of them one for each controller."""
    if (root / "cgroup.controllers").exists():
        yield root
    else:
        yield from (path for path in root.iterdir() if path.is_dir() and path.name != "unified")


def _places_of_groups() -> Iterator[Path]:
    """Yield where groups may be left: those made here, and what runtimes make beside version 1 of them."""
    yield from hierarchies()
    if (beside := CGROUPS / "unified").is_dir():
        yield beside


def group_names(prefix: str) -> set[str]:
    """Return the control groups whose names begin so."""
    return {path.name for root in _places_of_groups() for path in root.glob(f"{prefix}*")}


def _make_groups(name: str) -> None:
    for root in hierarchies():
        group = root / name
        group.mkdir(exist_ok=True)
        for inherited in ("cpuset.cpus", "cpuset.mems"):
            if root != CGROUPS and (root / inherited).exists():
                (group / inherited).write_text((root / inherited).read_text())
        for share, weight in _SHARES.items():
            if (group / share).exists():
                (group / share).write_text(weight)


def remove_groups(name: str, limit_s: float = 10) -> None:
    """Remove the groups of a cluster whose processes are gone; the kernel may still count some of them for a moment."""
    deadline = time.monotonic() + limit_s
    for root in _places_of_groups():
        for folder, _, _ in os.walk(root / name, topdown=False):
            while True:
                try:
                    Path(folder).rmdir()
                except FileNotFoundError:  # somebody else removes it too
                    break
                except OSError:
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(0.01)
                else:
                    break
