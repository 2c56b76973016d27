"""Where things are kept: what is slow to make in the user's cache, what belongs to one run in the checkout's."""

import os
from pathlib import Path
from typing import Final

REPOSITORY: Final = Path(__file__).resolve().parents[2]
SOURCES: Final = Path(__file__).resolve().parent / "sources"
RUNS: Final = REPOSITORY / ".cache" / "e2e"
"""One folder for each cluster, named by the process that started it; also `logs`, kept after failures."""


def cache() -> Path:
    """Return the folder of what is built once: programs, the base image, image archives."""
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(home) / "inferplane" / "e2e"
