"""From a checkout to an archive that a node takes; built only if the sources have changed since."""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from e2e.cluster.alone import alone
from e2e.cluster.places import REPOSITORY, cache
from e2e.images.base import BASE, ensure_base, root_archive
from e2e.images.builder import builder
from e2e.images.sources import digest

_COMPONENT: Final = "all"
_KEPT: Final = 3
"""Archives of the last builds; each has half a gigabyte."""


@dataclass(frozen=True, slots=True)
class BuiltImage:
    """An image that holds every component, and where its archive is."""

    name: str
    archive: Path


def e2e_image() -> BuiltImage:
    """Return the image of this checkout as it is now.  Not to be called from inside a cluster's network."""
    tag = digest(BASE)
    image = BuiltImage(f"localhost/inferplane:{tag}", cache() / "images" / f"{tag}.tar")
    with alone("image"):
        if not image.archive.exists():
            _build(image, tag)
        image.archive.touch()
        _drop_old(image.archive.parent)
    return image


def built_before(name: str) -> BuiltImage:
    """Return an image that the cache has, whatever the sources have become since."""
    image = BuiltImage(name, cache() / "images" / f"{name.rpartition(':')[2]}.tar")
    if not image.archive.exists():
        raise FileNotFoundError(f"{name} was not built here, or too long ago: there is no {image.archive}")
    return image


def _build(image: BuiltImage, tag: str) -> None:
    print(f"building {image.name}", flush=True)  # noqa: T201 - the first time takes minutes
    image.archive.parent.mkdir(parents=True, exist_ok=True)
    root_archive()
    with builder() as docker:
        subprocess.run([sys.executable, REPOSITORY / "tools/image_context.py", _COMPONENT], check=True)
        docker.tidy()
        ensure_base(docker)
        docker.build(REPOSITORY, image.name, _arguments(tag))
        docker.save(image.name, image.archive)


def _arguments(tag: str) -> dict[str, str]:
    return {"BASE_IMAGE": BASE, "COMPONENT": _COMPONENT, "VERSION": tag}


def _drop_old(folder: Path) -> None:
    archives = sorted(folder.glob("*.tar"), key=lambda archive: archive.stat().st_mtime, reverse=True)
    for archive in archives[_KEPT:]:
        archive.unlink()
