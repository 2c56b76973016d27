"""One instruction that numba has no name for: ask for a cache line before it is needed.

Problem: every store or look-up in a table larger than the caches waits for memory, and a compiler cannot know the next
address.  Idea: kernels know their next keys, so they ask ahead; that doubles stores a second.  Trade-off: it reaches
into numba's code generator.  Invariant: a prefetch never faults and changes no result, whatever the address.
Who only reads says so: a line that is asked for to be written is taken away from the processes that read it.
"""

from collections.abc import Callable  # noqa: TC003  # in a cast's text
from typing import Any, cast

import numpy as np  # noqa: TC002  # in a cast's text
from llvmlite import ir  # type: ignore[import-untyped]  # llvmlite ships no types
from numba.core import cgutils, types
from numba.extending import intrinsic
from numpy.typing import NDArray  # noqa: TC002  # in a cast's text

_TO_READ, _TO_WRITE, _KEEP, _DATA = 0, 1, 3, 1

# Neither numba's generator interface nor llvmlite has types.
_ir: Any = ir
_cgutils: Any = cgutils
_types: Any = types
_intrinsic: Any = intrinsic


def _generate(context: Any, builder: Any, signature: Any, args: Any, purpose: int) -> Any:
    array = context.make_array(signature.args[0])(context, builder, args[0])
    byte_pointer = _ir.IntType(8).as_pointer()
    number = _ir.IntType(32)
    address = builder.bitcast(builder.gep(array.data, [args[1]]), byte_pointer)
    kind = _ir.FunctionType(_ir.VoidType(), [byte_pointer, number, number, number])
    instruction = _cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
    builder.call(instruction, [address, number(purpose), number(_KEEP), number(_DATA)])
    return context.get_dummy_value()


def _generate_write(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return _generate(context, builder, signature, args, _TO_WRITE)


def _generate_read(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return _generate(context, builder, signature, args, _TO_READ)


def _to_write(typing_context: Any, array: Any, index: Any) -> Any:  # noqa: ARG001  # the shape that numba asks for
    return _types.void(array, index), _generate_write


def _to_read(typing_context: Any, array: Any, index: Any) -> Any:  # noqa: ARG001  # the shape that numba asks for
    return _types.void(array, index), _generate_read


prefetch = cast("Callable[[NDArray[np.uint64], np.uint64], None]", _intrinsic(_to_write))
"""prefetch(array, index) of a row that will be written, inside kernels only."""
prefetch_read = cast("Callable[[NDArray[np.uint64], np.uint64], None]", _intrinsic(_to_read))
"""prefetch_read(array, index) of a row that will only be read, inside kernels only."""
