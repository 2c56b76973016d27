"""A container's package folder is read-only and its user may have no home."""

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import inferplane_engine

PROGRAM = """
import numpy as np
from inferplane_engine.identity import hash_blocks
print(hash_blocks(np.arange(16, dtype=np.int32), 16, 1)[0])
"""


def run(root: Path, environment: dict[str, str]) -> str:
    clean = {name: value for name, value in os.environ.items() if name not in {"NUMBA_CACHE_DIR", "XDG_CACHE_HOME"}}
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**clean, "PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1", **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return result.stdout.strip()


@pytest.fixture(name="package")
def copied_package(tmp_path: Path) -> Path:
    """A copy of the package whose `__pycache__` is a file: no cache can be written beside it, not even by root."""
    root = tmp_path / "site"
    source = Path(inferplane_engine.__file__).parent
    copy = root / "inferplane_engine"
    copy.mkdir(parents=True)
    for name in (
        "__init__.py",
        "compiled.py",
        "identity.py",
        "identity_kernels.py",
        "kernel_cache.py",
        "kernel_sources.py",
    ):
        shutil.copy(source / name, copy / name)
    (copy / "__pycache__").write_text("")
    copy.chmod(stat.S_IREAD | stat.S_IEXEC)
    return root


@pytest.mark.slow
def test_kernels_are_compiled_in_memory_when_no_cache_can_be_written(package: Path, tmp_path: Path) -> None:
    no_home = tmp_path / "home"
    no_home.write_text("")

    assert int(run(package, {"HOME": str(no_home)})) > 0


@pytest.mark.slow
def test_the_cache_folder_of_the_environment_is_used(package: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    run(package, {"NUMBA_CACHE_DIR": str(cache)})

    assert list(cache.rglob("*chain_blocks*.nbi"))


@pytest.mark.slow
def test_kernels_of_a_folder_that_cannot_be_written_are_used(package: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    run(package, {"NUMBA_CACHE_DIR": str(cache)})
    kernels = {path: path.stat().st_mtime_ns for path in cache.rglob("*") if path.is_file()}

    said = run(
        package,
        {
            "NUMBA_CACHE_DIR": str(cache),
            "NUMBA_CACHE_LOCATOR_CLASSES": "inferplane_engine.kernel_cache.ReadOnlyCacheLocator",
            "NUMBA_DEBUG_CACHE": "1",
        },
    )

    assert "data loaded" in said
    assert "data saved" not in said
    assert {path: path.stat().st_mtime_ns for path in cache.rglob("*") if path.is_file()} == kernels
