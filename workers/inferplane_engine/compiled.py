"""Compiled kernels: one typed decorator over numba, with a cache wherever one can be written.

Problem: kernels must not be compiled anew at every start, yet a container's package folder is read-only and its user
may have no home.  Idea: `kernel` asks numba for a cached kernel (numba looks at NUMBA_CACHE_DIR, the package, the
user's cache folder, in this order); where none can be written the kernel is compiled in memory instead.
Trade-off: such a process pays a second or so at its first call, which `warm`-up functions of the modules can move to
the start.  Invariant: importing a module with kernels never fails for want of a writable folder.

Kernels release the GIL and take and return arrays and numbers only, so that another compiler could replace numba.
"""

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

import numba

_P = ParamSpec("_P")
_R = TypeVar("_R")


def kernel(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Compile `function` at its first call; usable from Python and from other kernels."""
    compile_kernel: Any = numba.njit
    try:
        compiled = compile_kernel(cache=True, nogil=True)(function)
    except RuntimeError:  # numba: "cannot cache function: no locator available"
        compiled = compile_kernel(nogil=True)(function)
    return cast("Callable[_P, _R]", compiled)


def inline(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Mark a small function that is only called from kernels; LLVM inlines it there."""
    return kernel(function)
