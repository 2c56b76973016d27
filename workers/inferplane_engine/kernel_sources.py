"""What a compiled kernel was made from: its own file, and those beside it whose kernels and constants it holds.

Problem: numba keeps a kernel until the file that it stands in is touched, though what it calls elsewhere is compiled
into it, and so are the constants that it reads; and a file of equal size and time, as reproducible packages have them,
counts as untouched.  Idea: a digest of the contents of all that the file imports from its own folder, and so on.
Invariant: kernels call kernels of their own folder only.
"""

import hashlib
import re
from functools import lru_cache
from pathlib import Path
from typing import Final

_IMPORTED: Final = r"^from {package}(?:\.(\w+) import| import (\w+))"


@lru_cache
def digest_of(file: Path, package: str) -> str:
    """Return a digest of the module `file` of `package`, and of what it is compiled together with."""
    together = hashlib.blake2b(digest_size=16)
    for each in sorted(_closure(file, package)):
        together.update(each.name.encode() + b"\0" + each.read_bytes())
    return together.hexdigest()


def _closure(file: Path, package: str) -> set[Path]:
    pattern = re.compile(_IMPORTED.format(package=re.escape(package)), re.MULTILINE)
    found, ahead = set[Path](), [file]
    while ahead:
        each = ahead.pop()
        if each not in found and each.is_file():
            found.add(each)
            names = pattern.findall(each.read_text("utf-8"))
            ahead += [file.with_name(f"{module or name}.py") for module, name in names]
    return found
