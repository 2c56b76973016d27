"""What a cluster has, read once for `preflight`; None stands for what may not be read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

from inferplane.cluster import AbsentKindError, Cluster, Connection, ForbiddenError, Object, Question
from inferplane.kube import kinds
from inferplane.kube.fields import label
from inferplane.kube.kinds import Kind
from inferplane.kube.objects import items
from inferplane_api.v1alpha1.metadata import GROUP
from inferplane_operator.render.names import LABEL_COMPONENT

_NODE_LEASES: Final = "kube-node-lease"
_PART_OF: Final = "app.kubernetes.io/part-of=inferplane"


@dataclass(frozen=True, slots=True, order=True)
class Right:
    """Something that commands do in a namespace."""

    verb: str
    resource: str
    group: str = ""
    subresource: str = ""

    def __str__(self) -> str:
        name = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{self.verb} {name}{f'/{self.subresource}' if self.subresource else ''}"


RIGHTS: Final = (
    Right("list", "inferenceservices", GROUP),
    Right("patch", "inferenceservices", GROUP),
    Right("create", "inferenceservices", GROUP),
    Right("list", "prefillpools", GROUP),
    Right("list", "decodepools", GROUP),
    Right("patch", "prefillpools", GROUP, "scale"),
    Right("patch", "decodepools", GROUP, "scale"),
    Right("list", "deployments", "apps"),
    Right("list", "replicasets", "apps"),
    Right("list", "controllerrevisions", "apps"),
    Right("list", "pods"),
    Right("get", "pods", "", "log"),
    Right("list", "events"),
)


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    version: str
    """Such as v1.37.2."""
    groups: frozenset[str]
    """Served API groups in their versions: apps/v1."""
    definitions: Sequence[Object] | None = None
    nodes: Sequence[Object] | None = None
    storage_classes: Sequence[Object] | None = None
    components: Sequence[Object] | None = None
    """Deployments of this project, in all namespaces."""
    policies: Sequence[Object] | None = None
    leases: Sequence[Object] | None = None
    """Each node renews one with its own clock."""
    rights: Mapping[Right, bool] = field(default_factory=dict[Right, bool])
    namespace: str = "default"
    served_at: float | None = None
    """The API server's clock."""
    seen_at: float = 0.0
    """This machine's clock at the same moment."""


def gather(connection: Connection, now: float) -> ClusterFacts:
    """Read everything.  Raises ClusterError where not even the version can be read."""
    cluster = connection.cluster
    version = cluster.ask(Question("/version"))
    return ClusterFacts(
        version=str(version.document.get("gitVersion", "")),
        groups=_groups(cluster),
        definitions=_maybe(cluster, kinds.RESOURCE_DEFINITIONS),
        nodes=_maybe(cluster, kinds.NODES),
        storage_classes=_maybe(cluster, kinds.STORAGE_CLASSES),
        components=read_components(cluster, connection.namespace),
        policies=_maybe(cluster, kinds.ADMISSION_POLICIES, labels=_PART_OF),
        leases=_maybe(cluster, kinds.LEASES, _NODE_LEASES),
        rights={right: _may(cluster, right, connection.namespace) for right in RIGHTS},
        namespace=connection.namespace,
        served_at=version.served_at,
        seen_at=now,
    )


def _groups(cluster: Cluster) -> frozenset[str]:
    try:
        document: Mapping[str, Any] = cluster.ask(Question("/apis")).document
    except ForbiddenError:
        return frozenset()
    versions = (it["versions"] for it in document["groups"])
    return frozenset(str(it["groupVersion"]) for several in versions for it in several)


def _maybe(cluster: Cluster, kind: Kind, namespace: str = "", *, labels: str = "") -> list[Object] | None:
    try:
        return items(cluster, kind, namespace, labels=labels)
    except ForbiddenError:
        return None
    except AbsentKindError:
        return []


def read_components(cluster: Cluster, namespace: str) -> list[Object] | None:
    """Look in all namespaces; where that is not allowed, in the one at hand."""
    found = _maybe(cluster, kinds.DEPLOYMENTS, labels=_PART_OF)
    if found is None:
        found = _maybe(cluster, kinds.DEPLOYMENTS, namespace, labels=_PART_OF)
    return None if found is None else [it for it in found if component(it) in ("gateway", "operator", "planner")]


def component(deployment: Object) -> str:
    return label(deployment, LABEL_COMPONENT)


def _may(cluster: Cluster, right: Right, namespace: str) -> bool:
    attributes = {
        "namespace": namespace,
        "verb": right.verb,
        "group": right.group,
        "resource": right.resource,
        **({"subresource": right.subresource} if right.subresource else {}),
    }
    review = {
        "apiVersion": kinds.ACCESS_REVIEWS.api_version,
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    try:
        answer = cluster.ask(Question(kinds.ACCESS_REVIEWS.collection(), method="POST", body=review)).document
    except ForbiddenError:
        return True  # whoever may not ask finds out by trying
    return bool(cast("Object", answer)["status"].get("allowed"))
