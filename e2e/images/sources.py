"""A digest of everything that an image is made of: the same sources are built once."""

import hashlib
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from e2e.cluster.places import REPOSITORY

_MADE_OF: Final = (
    "Dockerfile",
    ".dockerignore",
    "pyproject.toml",
    "README.md",
    "LICENSE",
    "NOTICE",
    "requirements/image",
    "tools/sbom.py",
    "tools/image_context.py",
    "cli",
    "operator",
    "planner",
    "router",
    "workers",
    "kvstore",
    "observability",
    "runtime",
    "crds",
)


def digest(*more: str) -> str:
    """Return a short digest of the checkout's files as they are, committed or not, and of `more`."""
    found = hashlib.sha256("\0".join(more).encode())
    for path in _files():
        found.update(str(path.relative_to(REPOSITORY)).encode() + b"\0" + path.read_bytes() + b"\0")
    return found.hexdigest()[:12]


def _files() -> Iterator[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *_MADE_OF],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for name in sorted(set(filter(None, listed.split("\0")))):
        path = REPOSITORY / name
        if path.is_file():  # else: deleted and not yet committed
            yield path
