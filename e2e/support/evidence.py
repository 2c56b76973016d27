"""What is kept of a failed test: objects, events, the logs of its Pods and of the cluster's own programs."""

import json
import shutil
from pathlib import Path
from typing import Any, Final

from e2e.cluster.access import Access
from e2e.cluster.one_node import OneNode

_OURS: Final = "inferenceservices,prefillpools,decodepools,kvstores,loraadapters,modelroutes"
_KINDS: Final = "all,configmaps,leases,poddisruptionbudgets,networkpolicies"
_LINES: Final = "--tail=2000"


def gather(access: Access, folder: Path) -> None:
    """Write what a cluster holds into a new folder, one file each."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    _write(folder / "events.txt", access.try_kubectl("get", "events", "-A", "--sort-by=.lastTimestamp").stdout)
    _write(folder / "objects.yaml", access.try_kubectl("get", _KINDS, "-A", "-o", "yaml").stdout)
    _write(folder / "ours.yaml", access.try_kubectl("get", _OURS, "-A", "-o", "yaml").stdout)
    _write(folder / "pods.txt", access.try_kubectl("describe", "pods", "-A").stdout)
    for namespace, pod, container in _containers(access):
        arguments = ("logs", "-n", namespace, pod, "-c", container, _LINES)
        name = f"{namespace}.{pod}.{container}"
        _write(folder / f"{name}.log", access.try_kubectl(*arguments).stdout)
        _write(folder / f"{name}.previous.log", access.try_kubectl(*arguments, "--previous").stdout)


def gather_components(node: OneNode, folder: Path) -> None:
    """Keep the logs of the cluster's own programs, the audit log among them."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(node.folder / "log", folder)


def _containers(access: Access) -> list[tuple[str, str, str]]:
    listed = access.try_kubectl("get", "pods", "-A", "-o", "json").stdout
    pods: list[dict[str, Any]] = json.loads(listed)["items"] if listed else []
    return [
        (pod["metadata"]["namespace"], pod["metadata"]["name"], container["name"])
        for pod in pods
        for kind in ("initContainers", "containers")
        for container in pod["spec"].get(kind, ())
    ]


def _write(path: Path, text: str) -> None:
    if text:
        path.write_text(text)
