"""Docker's daemon, for the time of a build, in an enclosure of its own.

It has no network at all: whatever a build needs is in its context.  Its layers are kept in the user's cache, so only
what has changed is built again; one process at a time uses them.
"""

import os
import shutil
import subprocess
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from e2e.cluster.alone import alone
from e2e.cluster.components import Component
from e2e.cluster.enclosure import STATE, Enclosure
from e2e.cluster.one_node import PREFIX
from e2e.cluster.places import RUNS, cache

_SOCKET: Final = f"unix://{STATE}/docker.sock"
_ADDRESS: Final = "10.99.0.2"
_KEPT_LAYERS: Final = 400
"""Some twenty come with each build, two of them new and large when the dependencies have changed."""


class BuildFailedError(Exception):
    """Docker said no; the text holds the end of what it said."""


@dataclass(frozen=True, slots=True)
class Builder:
    """A running daemon."""

    enclosure: Enclosure

    def answers(self) -> bool:
        return self._docker("version").returncode == 0

    def has(self, image: str) -> bool:
        return self._docker("image", "inspect", image).returncode == 0

    def load_root(self, archive: Path, image: str) -> None:
        """Make an image of a root file system's archive."""
        self._must("import", str(archive), image)

    def build(self, context: Path, image: str, arguments: Mapping[str, str]) -> None:
        given = [part for name, value in arguments.items() for part in ("--build-arg", f"{name}={value}")]
        self._must("build", "--network=none", "--tag", image, *given, str(context))

    def save(self, image: str, archive: Path) -> None:
        """Write an archive; it is renamed into place when it is whole."""
        new = archive.with_suffix(".new")
        self._must("save", "--output", str(new), image)
        new.rename(archive)

    def tidy(self) -> None:
        """Begin anew when builds have piled up: pruning by age would drop the layers that the next build wants."""
        if len(self._docker("image", "ls", "--all", "--quiet").stdout.split()) > _KEPT_LAYERS:
            self._must("system", "prune", "--all", "--force")

    def size(self, image: str) -> int:
        """Return the bytes of an image's layers, unpacked."""
        return int(self._must("image", "inspect", "--format={{.Size}}", image))

    def run(self, image: str, *command: str) -> str:
        """Run a command in a container of the image, read-only and without a network; return what it printed."""
        return self._must("run", "--rm", "--network=none", "--read-only", "--tmpfs=/tmp", image, *command)

    def _must(self, *arguments: str) -> str:
        result = self._docker(*arguments)
        if result.returncode:
            said = (result.stdout + result.stderr).decode(errors="replace").splitlines()
            raise BuildFailedError(f"docker {arguments[0]}:\n" + "\n".join(said[-40:]))
        return result.stdout.decode()

    def _docker(self, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        # the classic builder: the other one is a plug-in that few distributions ship
        environment = {**os.environ, "DOCKER_BUILDKIT": "0"}
        return self.enclosure.run([_client(), "--host", _SOCKET, *arguments], env=environment)


@contextmanager
def builder() -> Generator[Builder]:
    """Start the daemon, and end it."""
    folder = RUNS / f"{PREFIX}{os.getpid()}-builder"
    with alone("docker"):
        enclosure = Enclosure.make(folder, address=_ADDRESS, name=folder.name)
        built = Builder(enclosure)
        daemon = Component("dockerd", ["dockerd", *_daemon(folder.name)], enclosure, env={"PATH": _path()})
        try:
            daemon.start()
            daemon.await_(built.answers)
            yield built
            daemon.stop()
        finally:
            enclosure.end()
            daemon.reap()
            shutil.rmtree(folder)


def _daemon(group: str) -> list[str]:
    return [
        f"--data-root={cache() / 'docker'}",
        "--exec-root=/run/docker",
        f"--pidfile={STATE}/docker.pid",
        f"--host={_SOCKET}",
        f"--cgroup-parent=/{group}",
        "--bridge=none",
        "--iptables=false",
        "--storage-driver=overlay2",
        "--log-level=warn",
    ]


def _client() -> str:
    """Return the client that belongs to the daemon: a newer one in /usr/local may no longer speak its version."""
    return "/usr/bin/docker" if Path("/usr/bin/docker").exists() else "docker"


def _path() -> str:
    return f"{os.environ['PATH']}:/usr/sbin:/sbin"
