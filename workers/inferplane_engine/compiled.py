"""Compiled kernels: one typed decorator over numba, with a cache wherever one can be written.

Problem: kernels must not be compiled anew at every start, yet a container's package folder is read-only and its user
may have no home.  Idea: `kernel` asks numba for a cached kernel (numba looks at NUMBA_CACHE_DIR, the package, the
user's cache folder, in this order); where none can be written the kernel is compiled in memory instead.
Trade-off: such a process pays a second or so at its first call, which `warm`-up functions of the modules can move to
the start.  Invariants: neither the import of a module with kernels nor a call fails for want of a writable folder; a
cached kernel is used as long as all that was compiled into it is the same (`kernel_sources`).

Kernels release the GIL and take and return arrays and numbers only, so that another compiler could replace numba.
"""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import numba

from inferplane_engine.kernel_sources import digest_of

_P = ParamSpec("_P")
_R = TypeVar("_R")


def kernel(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Compile `function` at its first call; usable from Python and from other kernels."""
    compile_kernel: Any = numba.njit
    try:
        compiled = _cached(compile_kernel(cache=True, nogil=True)(function), function)
    except RuntimeError:  # numba: "cannot cache function: no locator available"
        compiled = compile_kernel(nogil=True)(function)
    return cast("Callable[_P, _R]", compiled)


def _cached(compiled: Any, function: Callable[..., Any]) -> Any:
    """Tell a cached kernel by its sources, and use one that cannot be saved: a folder may be read-only, or full."""
    cache = compiled._cache  # noqa: SLF001  # numba has no other way
    file, package = Path(function.__code__.co_filename), function.__module__.rpartition(".")[0]
    cache._cache_file._source_stamp = digest_of(file, package)  # noqa: SLF001
    save = cache.save_overload

    def save_if_possible(signature: Any, data: Any) -> None:
        with contextlib.suppress(OSError):
            save(signature, data)

    cache.save_overload = save_if_possible
    return compiled


def inline(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Mark a small function that is only called from kernels; LLVM inlines it there."""
    return kernel(function)
