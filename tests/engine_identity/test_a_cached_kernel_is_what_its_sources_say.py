"""A kernel is taken from the cache as long as all that was compiled into it is the same, and no longer."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import inferplane_engine

FILES = {
    "__init__.py": "",
    "layout.py": "STEP = 1\n",
    "inner_kernels.py": """
from inferplane_engine.compiled import kernel
from made.layout import STEP


@kernel
def inner(number: int) -> int:
    return number + STEP
""",
    "outer_kernels.py": """
from inferplane_engine.compiled import kernel
from made.inner_kernels import inner


@kernel
def outer(number: int) -> int:
    return inner(number) * 10
""",
    "elsewhere.py": "nothing = 0\n",
}
PROGRAM = "from made.outer_kernels import outer; print(outer(1))"


def answer(root: Path) -> str:
    paths = os.pathsep.join((str(root), str(Path(inferplane_engine.__file__).parents[1])))
    environment = {**os.environ, "PYTHONPATH": paths, "NUMBA_CACHE_DIR": str(root / "cache"), "NUMBA_DEBUG_CACHE": "1"}
    ended = subprocess.run(
        [sys.executable, "-B", "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True
    )
    return ended.stdout


@pytest.fixture(name="root")
def written_package(tmp_path: Path) -> Path:
    (tmp_path / "made").mkdir()
    for name, text in FILES.items():
        (tmp_path / "made" / name).write_text(text)
    return tmp_path


def rewrite(file: Path, old: str, new: str) -> None:
    """Change a file and nothing of what numba would look at: its size and its time stay."""
    before = file.stat()
    file.write_text(file.read_text().replace(old, new))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_what_a_kernel_calls_and_reads_counts_and_nothing_else(root: Path) -> None:
    assert answer(root).endswith("20\n")
    rewrite(root / "made" / "elsewhere.py", "0", "1")
    kept = answer(root)
    rewrite(root / "made" / "layout.py", "1", "2")
    read = answer(root)
    rewrite(root / "made" / "inner_kernels.py", "+ STEP", "- STEP")
    called = answer(root)

    assert "data saved" not in kept
    assert read.endswith("30\n")
    assert called.endswith("-10\n")
