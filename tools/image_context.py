"""Put what an image is built from into dist/image: the dependencies' wheels, as pinned, and the project's own.

usage: tools/image_context.py COMPONENT

The wheels are those of the image's interpreter and system, whatever this machine has.
"""

import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

REPOSITORY: Final = Path(__file__).resolve().parent.parent
CONTEXT: Final = REPOSITORY / "dist" / "image"
COMPONENTS: Final = ("router", "worker", "operator", "planner", "all")
_PINS: Final = REPOSITORY / "requirements" / "image"
_UV: Final = Path(sys.executable).parent / "uv"
_INSTALLER: Final = "installer.txt"
_PYTHON: Final = "3.11"
_GLIBC_MINORS: Final = (5, 12, 17, 24, 26, 27, 28, 31, 34)


def main() -> int:
    if sys.argv[1:] not in [[component] for component in COMPONENTS]:
        sys.stderr.write(f"usage: image_context.py {'|'.join(COMPONENTS)}\n")
        return 2
    prepare(sys.argv[1])
    return 0


def prepare(component: str) -> None:
    """Make the folder that the Dockerfile copies from; downloads only when the pins have changed."""
    CONTEXT.mkdir(parents=True, exist_ok=True)
    pins = "".join((_PINS / name).read_text("utf-8") for name in (f"{component}.txt", _INSTALLER))
    stamp = CONTEXT / "pins.txt"
    if not stamp.exists() or stamp.read_text("utf-8") != pins:
        stamp.unlink(missing_ok=True)
        _replace(CONTEXT / "dependencies", lambda folder: _download(component, folder))
        stamp.write_text(pins, "utf-8")
    _replace(CONTEXT / "project", _build)


def _replace(folder: Path, fill: Callable[[Path], None]) -> None:
    with tempfile.TemporaryDirectory(dir=CONTEXT) as temporary:
        new = Path(temporary) / "new"
        new.mkdir()
        fill(new)
        shutil.rmtree(folder, ignore_errors=True)
        new.chmod(0o755)
        new.rename(folder)


def _download(component: str, folder: Path) -> None:
    machine = platform.machine()
    # pip, since uv downloads into its own cache alone; an environment made by uv has none
    command = [str(_UV), "run", "--quiet", "--no-project", "--python", sys.executable]
    command += ["--with-requirements", str(_PINS / _INSTALLER), "python", "-m", "pip"]
    command += ["download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--only-binary=:all:", "--implementation=cp", f"--python-version={_PYTHON}", "--dest", str(folder)]
    command += [f"--platform=manylinux_2_{minor}_{machine}" for minor in _GLIBC_MINORS]
    command += [f"--platform=manylinux2014_{machine}"]
    for name in (f"{component}.txt", _INSTALLER):
        command += ["--requirement", str(_PINS / name)]
    subprocess.run(command, check=True)  # noqa: S603 - our own command


def _build(folder: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(command, check=True, cwd=REPOSITORY, stdout=subprocess.DEVNULL)  # noqa: S603 - our own command


if __name__ == "__main__":
    sys.exit(main())
