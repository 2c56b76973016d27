"""Compiled kernels: one typed decorator over numba, with a cache wherever one can be written.

Problem: kernels must not be compiled anew at every start, yet a container's package folder is read-only and its user
may have no home.  Idea: `kernel` asks numba for a cached kernel (numba looks at NUMBA_CACHE_DIR, the package, the
user's cache folder, in this order); where none can be written the kernel is compiled in memory instead.
Trade-off: such a process pays a second or so at its first call, which `warm`-up functions of the modules can move to
the start.  Invariant: neither the import of a module with kernels nor a call fails for want of a writable folder.

Kernels release the GIL and take and return arrays and numbers only, so that another compiler could replace numba.
"""

import contextlib
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

import numba

_P = ParamSpec("_P")
_R = TypeVar("_R")


def kernel(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Compile `function` at its first call; usable from Python and from other kernels."""
    compile_kernel: Any = numba.njit
    try:
        compiled = _saving_if_possible(compile_kernel(cache=True, nogil=True)(function))
    except RuntimeError:  # numba: "cannot cache function: no locator available"
        compiled = compile_kernel(nogil=True)(function)
    return cast("Callable[_P, _R]", compiled)


def _saving_if_possible(compiled: Any) -> Any:
    """Let a kernel that cannot be saved be used all the same: the folder may be read-only (`kernel_cache`), or full."""
    cache = compiled._cache  # noqa: SLF001  # numba has no other way
    save = cache.save_overload

    def save_if_possible(signature: Any, data: Any) -> None:
        with contextlib.suppress(OSError):
            save(signature, data)

    cache.save_overload = save_if_possible
    return compiled


def inline(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Mark a small function that is only called from kernels; LLVM inlines it there."""
    return kernel(function)
