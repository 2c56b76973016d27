"""Whether this machine can hold a cluster: asked before anything is downloaded, installed or built.

Problem: a cluster needs root, namespaces, mounts, bridges and control groups.  Where one of them is not to be had some
program fails minutes later, in words about itself, or waits for what never comes.
Idea: try each of them once, in namespaces that end at once, and name all that is missing, with the way to get it.
Trade-off: what shows under load alone, memory and disk space, is not asked.
Invariant: nothing is left of what was tried, and the answer comes within seconds whatever the machine does.

This runs before there is an environment to run in, so it needs the standard library and nothing else.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from e2e.cluster.binaries import ALL, MissingError, go_command
from e2e.cluster.enclosure import CGROUPS, NAMESPACES, hierarchies
from e2e.cluster.packages import NEEDED, NEEDED_FOR_IMAGES, why_not_installed
from e2e.cluster.places import RUNS

GIVEN: Final = "INFERPLANE_E2E_KUBECONFIG"
_CONTROLLERS: Final = frozenset({"cpu", "cpuset", "memory", "pids"})
"""What the kubelet insists on."""
_LIMIT_S: Final = 20.0
_TRIED: Final[Mapping[str, str]] = {
    "a tmpfs on /run": "mount -t tmpfs tmpfs /run",
    "an overlay on /var/lib, with its files in the checkout": (
        'mkdir "$1/upper" "$1/work" &&'
        ' mount -t overlay -o "lowerdir=/var/lib,upperdir=$1/upper,workdir=$1/work" overlay /var/lib'
    ),
    "a network bridge": "! command -v ip >/dev/null || ip link add node0 type bridge",
    "forwarding of packets": "! command -v sysctl >/dev/null || sysctl -qw net.ipv4.ip_forward=1",
    "an nftables table": "! command -v nft >/dev/null || nft add table inferplane",
}
"""What a cluster does first in its namespaces; a program that is not there yet will be installed."""


def lacks() -> list[str]:
    """Return what is missing here, each with the way to get it; nothing: a cluster can run."""
    if sys.platform != "linux":
        return [f"Linux: a cluster lives in its namespaces, and this is {sys.platform}"]
    if said := of_root():  # what root may do, and has in its cache, nobody else can see
        return [said]
    return [said for ask in _ASKED if (said := ask())]


def told(missing: Sequence[str]) -> str:
    """Return all of it as a reader should see it."""
    lines = "\n".join(f"  - {each}" for each in missing)
    return (
        f"this machine cannot run the cluster of the end-to-end tests; it lacks\n{lines}\n"
        f"A cluster that exists will do as well: {GIVEN}=FILE (docs/how-to/end-to-end.md)"
    )


def of_root(user: int | None = None) -> str:
    user = os.geteuid() if user is None else user
    return f"root: namespaces, mounts and bridges are made (this is user {user})" if user else ""


def of_namespaces(folder: Path = RUNS, unshare: Sequence[str] = ("unshare",), limit_s: float = _LIMIT_S) -> str:
    """Try in new namespaces what a cluster begins with; say what was refused."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix="tried-") as place:
        command = [*unshare, "--fork", "--kill-child=KILL", "--mount-proc", *NAMESPACES, "--propagation=private", "--"]
        command += ["/bin/sh", "-c", _script(), "tried", place]
        try:
            result = subprocess.run(command, capture_output=True, text=True, timeout=limit_s, check=False)
        except FileNotFoundError:
            return "unshare, nsenter and setpriv: the distribution's util-linux has them"
        except subprocess.TimeoutExpired:
            return f"namespaces that answer: they did not within {limit_s:g} s"
    return "" if result.returncode == 0 else _refused(result.stdout.splitlines(), result.stderr.strip())


def _script() -> str:
    """Say what is about to be tried, so that the last thing said is what failed."""
    steps = [f"echo '{what}'; {{ {command}; }} || exit 1" for what, command in _TRIED.items()]
    return "\n".join(["PATH=$PATH:/usr/sbin:/sbin", *steps])


def _refused(said: Sequence[str], why: str) -> str:
    if not said:
        return f"mount, PID and network namespaces: {why}; a container needs --privileged"
    return f"{said[-1]}, in namespaces of its own: {why or 'refused'}; a container needs --privileged"


def of_groups(root: Path = CGROUPS) -> str:
    """Try to make a control group, and look which controllers there are."""
    if not root.is_dir() or not (found := list(hierarchies(root))):
        return f"control groups: nothing is mounted on {root}"
    if absent := _CONTROLLERS - controllers(root):
        return f"the control group controllers {', '.join(sorted(absent))}: {root} does not have them"
    for hierarchy in found:
        group = hierarchy / f"inferplane-tried-{os.getpid()}"
        try:
            group.mkdir()
            group.rmdir()
        except OSError as error:
            return f"control groups: none can be made in {hierarchy} ({error.strerror}); a container needs --privileged"
    return ""


def controllers(root: Path) -> set[str]:
    """Return the controllers of one hierarchy for all, or of version 1 with one for each."""
    unified = root / "cgroup.controllers"
    if unified.exists():
        return set(unified.read_text("utf-8").split())
    return {name for path in hierarchies(root) for name in path.name.split(",")}


def of_children() -> str:
    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children")
    return "" if children.exists() else f"{children}: a kernel built with CONFIG_PROC_CHILDREN"


def of_go() -> str:
    """Look for a compiler, where something is still to be built."""
    if all(program.home.exists() for program in ALL):
        return ""
    try:
        go_command()
    except (MissingError, subprocess.CalledProcessError) as error:
        return str(error)
    return ""


def of_packages() -> str:
    needed = NEEDED if os.environ.get("INFERPLANE_E2E_IMAGE") else {**NEEDED, **NEEDED_FOR_IMAGES}
    return why_not_installed(needed)


_ASKED: Final[Sequence[Callable[[], str]]] = (of_namespaces, of_groups, of_children, of_go, of_packages)


def main() -> int:
    if os.environ.get(GIVEN) or not (missing := lacks()):
        return 0
    sys.stderr.write(f"error: {told(missing)}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
