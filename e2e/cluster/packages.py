"""Programs that come from the distribution: installed when they are missing and that is allowed, named otherwise."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from e2e.cluster.alone import alone
from e2e.cluster.binaries import MissingError

NEEDED: Final[Mapping[str, str]] = {
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "/usr/lib/cni/bridge": "containernetworking-plugins",
    "iptables": "iptables",
    "nft": "nftables",
    "ip": "iproute2",
    "sysctl": "procps",
    "openssl": "openssl",
}
NEEDED_FOR_IMAGES: Final[Mapping[str, str]] = {"dockerd": "docker.io", "debootstrap": "debootstrap"}


def install_missing(needed: Mapping[str, str] = NEEDED) -> None:
    """Install what is missing.  Raises MissingError where that cannot be done."""
    if _missing(needed):
        with alone("packages"):
            _install(needed)


def why_not_installed(needed: Mapping[str, str] = NEEDED) -> str:
    """Return which packages are missing and cannot be installed from here, and how they would be; "" for none."""
    missing = _missing(needed)
    if not missing or (os.geteuid() == 0 and shutil.which("apt-get")):
        return ""
    return f"{' '.join(missing)}; on Debian: sudo apt-get install --yes --no-install-recommends {' '.join(missing)}"


def _install(needed: Mapping[str, str]) -> None:
    missing = _missing(needed)
    if not missing:
        return
    if why := why_not_installed(needed):
        raise MissingError(f"missing on this machine: {why}")
    command = ["apt-get", "install", "--yes", "--no-install-recommends", *missing]
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for step in (["apt-get", "update", "-q"], command):
        subprocess.run(step, env=quiet, check=True, stdout=subprocess.DEVNULL)
    if still := _missing(needed):
        raise MissingError(f"installed, and yet missing: {' '.join(still)}")


def _missing(needed: Mapping[str, str]) -> list[str]:
    return sorted({package for program, package in needed.items() if not _is_there(program)})


def _is_there(program: str) -> bool:
    # what only root runs is not on everybody's PATH
    return Path(program).exists() or shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin:/sbin") is not None
