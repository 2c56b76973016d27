"""Loads and stores that other processes may rely on the order of; numba has none for CPUs.

Problem: x86 keeps stores in order and Arm does not, and a compiler may move either.  Idea: the instructions exist in
LLVM, so kernels get them by intrinsics.  Trade-off: like `prefetch`, this reaches into numba's code generator.
Invariants: who sees a value that `store_release` wrote sees all that its writer wrote before; what is read before
`fence` is read before what follows it.
"""

from collections.abc import Callable  # noqa: TC003  # in a cast's text
from typing import Any, cast

import numpy as np  # noqa: TC002  # in a cast's text
from numba.core import types
from numba.extending import intrinsic
from numpy.typing import NDArray  # noqa: TC002  # in a cast's text

_BYTES = 8

# Neither numba's generator interface nor llvmlite has types.
_types: Any = types
_intrinsic: Any = intrinsic


def _address(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    array = context.make_array(signature.args[0])(context, builder, args[0])
    return builder.gep(array.data, [args[1]])


def _generate_load(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return builder.load_atomic(_address(context, builder, signature, args), "acquire", _BYTES)


def _generate_store(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    builder.store_atomic(args[2], _address(context, builder, signature, args), "release", _BYTES)
    return context.get_dummy_value()


def _generate_fence(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001  # as numba calls it
    builder.fence("seq_cst")
    return context.get_dummy_value()


def _load(typing_context: Any, array: Any, index: Any) -> Any:  # noqa: ARG001  # the shape that numba asks for
    return _types.uint64(array, _types.uint64), _generate_load


def _store(typing_context: Any, array: Any, index: Any, value: Any) -> Any:  # noqa: ARG001  # the shape that numba asks for
    return _types.void(array, _types.uint64, _types.uint64), _generate_store


def _fence(typing_context: Any) -> Any:  # noqa: ARG001  # the shape that numba asks for
    return _types.void(), _generate_fence


load_acquire = cast("Callable[[NDArray[np.uint64], np.uint64], np.uint64]", _intrinsic(_load))
"""load_acquire(array, index), inside kernels only."""
store_release = cast("Callable[[NDArray[np.uint64], np.uint64, np.uint64], None]", _intrinsic(_store))
"""store_release(array, index, value), inside kernels only."""
fence = cast("Callable[[], None]", _intrinsic(_fence))
"""fence(), inside kernels only."""
