"""Lets vLLM's CPU build start with LMCache; an engine finds this folder on its path.

vLLM 0.32 looks through the globals of all loaded modules by `vars(value).get`.  LMCache has loaded llvmlite by then,
one of whose objects makes a function of every attribute it is asked for, `__dict__` among them.
"""

# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# llvmlite lives in the engine's environment only

from importlib import import_module
from typing import Any

wrapper: Any = import_module("llvmlite.binding.ffi")._lib_wrapper  # noqa: SLF001 - it has no other name
asked = wrapper.__getattr__


def plain(self: object, name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return asked(self, name)


wrapper.__getattr__ = plain
