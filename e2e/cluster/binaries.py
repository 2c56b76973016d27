"""The programs of a cluster, built from Go modules once for each version into the user's cache.

The folder's name holds the module's version and a digest of the sources beside this file, so whoever changes either
gets a new build, and checkouts of several versions share the cache.  A build is renamed into place when it is whole;
two processes that need the same one build it once.
"""

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from e2e.cluster.alone import alone
from e2e.cluster.places import SOURCES, cache

_GO: Final = (1, 26)
_LINKS: Final = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-proxy",
    "kube-scheduler",
    "kubectl",
    "kubelet",
)
CLIENTS: Final = ("kubectl", "helm")
"""What tests of somebody's cluster need; the machine's own will do where none was built."""
_VERSION_VARIABLES: Final = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")


class MissingError(Exception):
    """Something that the end-to-end tests need is not on this machine; the text says how to get it."""


@dataclass(frozen=True, slots=True)
class Program:
    """One file to build: from which folder of `sources`, which package, and at which module's version."""

    name: str
    module: str = ""
    package: str = "."

    @property
    def folder(self) -> Path:
        return SOURCES / self.name

    @property
    def version(self) -> str:
        """Return the version that `go.mod` requires of the module; "" for a program of our own."""
        required = re.search(rf"\b{re.escape(self.module)} v(\S+)", (self.folder / "go.mod").read_text("utf-8"))
        return required[1] if self.module and required else ""

    @property
    def home(self) -> Path:
        digest = hashlib.sha256()
        for path in sorted(self.folder.iterdir()):
            digest.update(path.name.encode() + b"\0" + path.read_bytes())
        return cache() / "-".join(part for part in (self.name, self.version, digest.hexdigest()[:8]) if part)


KUBERNETES: Final = Program("kubernetes", "k8s.io/kubernetes")
COREDNS: Final = Program("coredns", "github.com/coredns/coredns")
HELM: Final = Program("helm", "helm.sh/helm/v3", "helm.sh/helm/v3/cmd/helm")
PAUSE: Final = Program("pause")
ALL: Final = (KUBERNETES, HELM, COREDNS, PAUSE)


def path_of(name: str) -> Path:
    """Return the file of a program or of one of the parts of Kubernetes, whether it is built or not."""
    home = KUBERNETES.home if name in _LINKS else next(program.home for program in ALL if program.name == name)
    own = shutil.which(name) if name in CLIENTS and not (home / name).exists() else None
    return Path(own) if own else home / name


def build_missing() -> None:
    """Build what the cache lacks; the first time this takes a quarter of an hour on two cores."""
    for program in ALL:
        if program.home.exists():
            continue
        with alone(program.name):
            if not program.home.exists():
                _build(program)


def _build(program: Program) -> None:
    go = go_command()
    print(f"building {program.name} {program.version}, once", flush=True)  # noqa: T201 - minutes pass
    with tempfile.TemporaryDirectory(dir=cache()) as temporary:
        output = Path(temporary) / "new"
        output.mkdir()
        subprocess.run(
            [go, "build", "-trimpath", "-ldflags", _flags(program), "-o", output / program.name, program.package],
            cwd=program.folder,
            env=_environment(),
            check=True,
        )
        for link in _LINKS if program is KUBERNETES else ():
            (output / link).symlink_to(program.name)
        output.rename(program.home)


def _flags(program: Program) -> str:
    """Tell a program its version: a kubelet without one is refused, and Helm judges charts by the cluster's."""
    flags = ["-s", "-w", *(f"-X {line}" for line in _variables(program))]
    return " ".join(flags)


def _variables(program: Program) -> Iterator[str]:
    written = program.folder / "variables"
    if written.exists():
        yield from written.read_text("utf-8").split()
    if program is KUBERNETES:
        major, minor, _ = program.version.split(".")
        values = {"gitVersion": f"v{program.version}", "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
        yield from (f"{package}.{name}={value}" for package in _VERSION_VARIABLES for name, value in values.items())


def _environment() -> Mapping[str, str]:
    return {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly -buildvcs=false", "GOWORK": "off"}


def go_command() -> str:
    """Return the path of a Go that is new enough; MissingError where there is none."""
    wanted = ".".join(str(number) for number in _GO)
    go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if go is None:
        raise MissingError(f"Go {wanted} or newer builds the cluster's programs, and there is no `go`")
    said = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, check=True).stdout
    found = re.match(r"go(\d+)\.(\d+)", said)
    if found is None or (int(found[1]), int(found[2])) < _GO:
        raise MissingError(f"Go {wanted} or newer builds the cluster's programs; {go} is {said.strip()}")
    return go
