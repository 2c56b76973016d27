"""Accelerator classes of the release in a cluster: read where its operator reads them.

Problem.  A file may name a class that only the chart's values describe; judged by the built-in classes, what the
operator carries out would be called an error.
Idea.  The operator's Deployment mounts the classes from a ConfigMap, which is looked up by the name of the volume.
Trade-off.  Who may not read Deployments or that ConfigMap judges by the built-in classes.
"""

from collections.abc import Sequence
from typing import Final

from inferplane.cluster import Cluster, ForbiddenError, Object
from inferplane.kube import kinds
from inferplane.kube.facts import component
from inferplane.kube.fields import namespace_of, parts, text
from inferplane.kube.objects import find
from inferplane_operator.render.accelerators import Accelerators, AcceleratorsError, read_accelerators

_VOLUME: Final = "accelerators"
_KEY: Final = "accelerators.json"


def release_accelerators(cluster: Cluster, components: Sequence[Object] | None) -> Accelerators:
    """Return the classes that the operator among the release's Deployments knows."""
    for deployment in components or ():
        if component(deployment) != "operator":
            continue
        for volume in parts(deployment, "spec", "template", "spec", "volumes"):
            if text(volume, "name") == _VOLUME:
                return _read(cluster, namespace_of(deployment), text(volume, "configMap", "name"))
    return Accelerators()


def _read(cluster: Cluster, namespace: str, name: str) -> Accelerators:
    try:
        found = find(cluster, kinds.CONFIG_MAPS, namespace, name) or {}
        return read_accelerators(text(found, "data", _KEY))
    except (ForbiddenError, AcceleratorsError):  # an operator that is told nonsense says so itself, and does not start
        return Accelerators()
