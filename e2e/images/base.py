"""The base image, made of the distribution's packages: no registry of images is needed to test.

It stands in for the official Python image on the same release of Debian: interpreter, certificates, a shell.
"""

import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import Final

from e2e.cluster.places import cache
from e2e.images.builder import Builder

BASE: Final = "localhost/python:3.11-bookworm-1"
"""The number after the release is raised when what is in it changes."""
_RELEASE: Final = "bookworm"
_PACKAGES: Final = "python3,ca-certificates"
_LEFT_OUT: Final = ("usr/share/doc", "usr/share/man", "usr/share/locale", "var/cache/apt", "var/lib/apt/lists")


def root_archive() -> Path:
    """Return the archive of the base's root file system; made once, with packages from the distribution's mirrors."""
    archive = cache() / f"{BASE.rpartition(':')[2]}.tar"
    if not archive.exists():
        with tempfile.TemporaryDirectory(dir=cache()) as temporary:
            root, new = Path(temporary) / "root", Path(temporary) / "new.tar"
            _bootstrap(root)
            _pack(root, new)
            new.rename(archive)
    return archive


def ensure_base(builder: Builder) -> None:
    if not builder.has(BASE):
        builder.load_root(root_archive(), BASE)


def _bootstrap(root: Path) -> None:
    # mounts of its own: what it mounts below the root is gone when it ends, however it ends
    apart = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    command = ["debootstrap", "--variant=minbase", f"--include={_PACKAGES}", _RELEASE, str(root)]
    result = subprocess.run([*apart, *command], capture_output=True, text=True, check=False)
    if result.returncode:
        raise RuntimeError(f"debootstrap failed:\n{result.stdout[-2000:]}{result.stderr[-2000:]}")


def _pack(root: Path, archive: Path) -> None:
    for folder in _LEFT_OUT:
        shutil.rmtree(root / folder, ignore_errors=True)
    with tarfile.open(archive, "w") as packed:
        packed.add(root, arcname=".", filter=_without_devices)


def _without_devices(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if entry.ischr() or entry.isblk() else entry
