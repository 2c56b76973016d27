"""A cache of compiled kernels that was filled elsewhere and cannot be written: the one in an image.

Problem: numba takes a cache folder only if it can write to it, so in a container with a read-only root file system it
passes by the kernels that the image has and compiles all of them anew, at every start.  Idea: numba lets the
environment name the class that finds the folder (NUMBA_CACHE_LOCATOR_CLASSES, as the Dockerfile does); this one asks
that the folder be there and no more.  Invariant: a kernel that the image lacks is compiled in memory; see `compiled`.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    _Locator: Any = object
else:
    from numba.core.caching import UserProvidedCacheLocator as _Locator


class ReadOnlyCacheLocator(_Locator):  # type: ignore[misc]  # numba has no types
    """Looks in NUMBA_CACHE_DIR, which may be read-only."""

    def ensure_cache_path(self) -> None:
        """Say whether there are kernels of this source file, where numba would try to write."""
        folder = Path(str(self.get_cache_path()))
        if not folder.is_dir():
            raise FileNotFoundError(folder)
