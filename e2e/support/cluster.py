"""A cluster as tests see it: one of our own, whose parts may be broken, or somebody's, which is only used."""

import json
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Self

import pytest

from e2e.cluster.access import Access
from e2e.cluster.one_node import OneNode
from e2e.support.reading import Reader


@dataclass(frozen=True, slots=True)
class Cluster:
    """How to reach it, and its parts where it is ours."""

    access: Access
    own: OneNode | None
    reader: Reader

    @classmethod
    def of(cls, access: Access, own: OneNode | None = None) -> Self:
        return cls(access, own, Reader(access.kubeconfig))

    @property
    def node(self) -> OneNode:
        """Return the cluster of our own; a test that breaks parts is skipped on another."""
        if self.own is None:
            pytest.skip("this test breaks parts of the cluster, which INFERPLANE_E2E_KUBECONFIG says is somebody's")
        return self.own

    def outside(self) -> AbstractContextManager[None]:
        """Be in this machine's own network for a while, where downloads are possible."""
        return self.own.enclosure.outside() if self.own is not None else nullcontext()

    def kubectl(self, *arguments: str, stdin: str = "") -> str:
        return self.access.kubectl(*arguments, stdin=stdin)

    def apply(self, manifest: str | Mapping[str, Any], *options: str, namespace: str = "default") -> None:
        """Apply a manifest, or YAML with any number of them, as a user does."""
        text = manifest if isinstance(manifest, str) else json.dumps(manifest)
        self.kubectl("apply", *options, "--namespace", namespace, "--filename", "-", stdin=text)

    def get(self, kind: str, name: str = "", *, namespace: str = "default", selector: str = "") -> dict[str, Any]:
        """Return an object, or a list of them where there is no name."""
        return self.reader.get(kind, name, namespace=namespace, selector=selector)

    def wait(self, kind_and_name: str, condition: str, *, namespace: str = "default", limit_s: float = 120) -> None:
        """Wait as a user's script does: with kubectl wait."""
        limit = f"--timeout={limit_s:g}s"
        self.kubectl("wait", "--namespace", namespace, f"--for={condition}", kind_and_name, limit)
