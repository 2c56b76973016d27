"""A cached folder is either whole or absent: it is built beside its place and renamed into it.

The recipe (any text that decides the contents) is kept inside, so a changed recipe builds anew and an equal one costs
one small read.  Two builders at once both work; the first to finish wins and the other's work is thrown away.
"""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

RECIPE_FILE = ".recipe"


def build_once(target: Path, recipe: str, build: Callable[[Path], None]) -> bool:
    """Fill `target` by `build(folder)` unless it was built from this recipe before; tell whether anything was built."""
    digest = hashlib.sha256(recipe.encode()).hexdigest()
    if _recipe_of(target) == digest:
        return False
    target.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        build(work)
        (work / RECIPE_FILE).write_text(digest)
        _publish(work, target, digest)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return True


def _recipe_of(folder: Path) -> str | None:
    try:
        return (folder / RECIPE_FILE).read_text()
    except FileNotFoundError:
        return None


def _publish(work: Path, target: Path, digest: str) -> None:
    work.chmod(0o755)  # mkdtemp makes it private
    if target.exists():
        old = Path(tempfile.mkdtemp(prefix=f".{target.name}.old.", dir=target.parent))
        os.replace(target, old / target.name)  # noqa: PTH105 - the same call for files and folders on every Python
        shutil.rmtree(old, ignore_errors=True)
    try:
        os.replace(work, target)  # noqa: PTH105 - as above
    except OSError:
        if _recipe_of(target) != digest:  # else: another builder was faster, with the same recipe
            raise
