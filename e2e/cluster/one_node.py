"""A whole cluster: from nothing to a ready node, parts killed and started again, and to nothing.

The thread that starts a cluster is in its network from then on, and so are the processes that it starts: clients,
port-forwards and browsers reach Services and Pods by their addresses, and nothing of a test is on the host's network.
"""

import os
import shutil
import subprocess
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from e2e.cluster.access import Access
from e2e.cluster.administrator import Administrator
from e2e.cluster.archive import one_file_image
from e2e.cluster.binaries import path_of
from e2e.cluster.certificates import Certificates
from e2e.cluster.components import Component
from e2e.cluster.control_plane import (
    ADDRESS,
    ADMIN,
    NODE,
    SERVICES,
    ControlPlane,
    control_plane,
    make_certificates,
)
from e2e.cluster.enclosure import STATE, Enclosure, group_names, remove_groups
from e2e.cluster.node import DNS_READY, PAUSE_IMAGE, PROXY_HEALTH, SOCKET, Node, node
from e2e.cluster.places import RUNS

PREFIX: Final = "inferplane-e2e-"


class ImageRefusedError(Exception):
    """containerd did not take an image."""


@dataclass(slots=True)
class OneNode:
    """A running cluster."""

    enclosure: Enclosure
    certificates: Certificates
    control_plane: ControlPlane
    node: Node
    administrator: Administrator

    @classmethod
    def start(cls) -> Self:
        """Start everything and wait until Pods can be created and run."""
        remove_leftovers()
        folder = RUNS / f"{PREFIX}{os.getpid()}"
        enclosure = Enclosure.make(folder, address=ADDRESS, name=folder.name, routes=(SERVICES,))
        try:
            enclosure.enter_network()
            certificates = make_certificates(folder / "pki")
            administrator = Administrator.of(certificates)
            cluster = cls(enclosure, certificates, control_plane(enclosure), node(enclosure), administrator)
            cluster._start()
        except BaseException:
            enclosure.end()  # the folder stays until the next start, for whoever wants to know why
            raise
        return cluster

    @property
    def folder(self) -> Path:
        return self.enclosure.folder

    @property
    def access(self) -> Access:
        return Access(self.certificates.path(f"{ADMIN.name}.kubeconfig"))

    @property
    def audit_log(self) -> Path:
        return self.folder / "log" / "audit.log"

    def close(self) -> None:
        """End everything at once and remove what the run has written; who wants its logs copies them before.

        Nobody waits for the removal, which takes a minute on some disks; what is left of it, the next start removes.
        """
        self.enclosure.end()
        for component in self.components:
            component.reap()
        subprocess.run(["sh", "-c", 'rm -rf -- "$1" >/dev/null 2>&1 &', "sh", self.folder], check=True)

    def stop_api_server(self) -> None:
        """Ask the API server to end, and kill it soon after: it would wait a minute for watchers who do not know."""
        self.control_plane.api_server.stop(limit_s=2)

    def start_api_server(self) -> None:
        """Start it again; it is ready on return."""
        server = self.control_plane.api_server
        server.start()
        server.await_(self.administrator.finds_ready)

    def import_image(self, archive: Path) -> None:
        """Give the node an image; containerd reads the archive through a link into the run's folder."""
        inside = self.folder / "images" / archive.name
        inside.parent.mkdir(exist_ok=True)
        os.link(archive, inside) if archive.stat().st_dev == self.folder.stat().st_dev else shutil.copy(archive, inside)
        result = self.enclosure.run(self.ctr("images", "import", str(STATE / "images" / archive.name)))
        inside.unlink()
        if result.returncode:
            raise ImageRefusedError(f"{archive}: {result.stderr.decode()}")

    def tag_image(self, name: str, other: str) -> None:
        """Let an image of the node have another name as well."""
        result = self.enclosure.run(self.ctr("images", "tag", "--force", name, other))
        if result.returncode:
            raise ImageRefusedError(f"{name}: {result.stderr.decode()}")

    def ctr(self, *arguments: str) -> list[str]:
        """Return a command line of containerd's client, to be run in the enclosure."""
        return ["ctr", "--address", str(SOCKET), "--namespace", "k8s.io", *arguments]

    def _start(self) -> None:
        plane, node = self.control_plane, self.node
        for early in (plane.etcd, plane.api_server, node.containerd):
            early.start()
        node.containerd.await_(self._containerd_answers)
        self._import_pause()
        plane.api_server.await_(self.administrator.finds_ready)
        # earlier they would meet an API server without its own roles, and wait long before they ask again
        for late in (plane.controllers, plane.scheduler, node.kubelet, node.proxy, node.dns):
            late.start()
        plane.controllers.await_(self._has_service_account)
        node.kubelet.await_(self._node_is_ready)
        node.proxy.await_(lambda: _answers(PROXY_HEALTH))
        node.dns.await_(lambda: _answers(DNS_READY))

    def _import_pause(self) -> None:
        archive = self.folder / "pause.tar"
        one_file_image(path_of("pause"), PAUSE_IMAGE, archive)
        self.import_image(archive)

    def _containerd_answers(self) -> bool:
        return self.enclosure.run(self.ctr("version")).returncode == 0

    def _has_service_account(self) -> bool:
        return self.administrator.get("/api/v1/namespaces/default/serviceaccounts/default") is not None

    def _node_is_ready(self) -> bool:
        found: dict[str, Any] = self.administrator.get(f"/api/v1/nodes/{NODE}") or {}
        conditions: list[dict[str, str]] = found.get("status", {}).get("conditions", [])
        return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)

    @property
    def components(self) -> tuple[Component, ...]:
        return (*self.control_plane.components, *self.node.components)


def remove_leftovers() -> None:
    """Remove what is left of clusters whose process is gone: they ended with it, their folders and groups did not."""
    for folder in RUNS.glob(f"{PREFIX}*"):
        if _is_gone(folder.name):
            shutil.rmtree(folder, ignore_errors=True)  # it may be on its way out
    for name in group_names(PREFIX):
        if _is_gone(name):
            remove_groups(name)


def _is_gone(name: str) -> bool:
    pid = name.removeprefix(PREFIX).partition("-")[0]
    return not Path("/proc", pid).exists()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2):  # noqa: S310 - http
            return True
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return False
