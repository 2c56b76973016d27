"""Reading and changing objects of a cluster: the few calls that commands are made of."""

from collections.abc import Sequence
from typing import Final, cast

from inferplane.cluster import MERGE_PATCH, AbsentKindError, Cluster, ForbiddenError, NotFoundError, Object, Question
from inferplane.kube.fields import parts, text
from inferplane.kube.kinds import Kind

FIELD_MANAGER: Final = "inferplane-cli"
_PAGE: Final = "500"


def get(cluster: Cluster, kind: Kind, namespace: str, name: str) -> Object:
    """Return an object.  Raises NotFoundError and other ClusterErrors."""
    return cast("Object", cluster.ask(Question(kind.path(namespace, name))).document)


def find(cluster: Cluster, kind: Kind, namespace: str, name: str) -> Object | None:
    """Return an object, or None where there is no such object or no such kind."""
    try:
        return get(cluster, kind, namespace, name)
    except (NotFoundError, AbsentKindError):
        return None


def exists(cluster: Cluster, kind: Kind, namespace: str, name: str) -> bool:
    """Say whether there is such an object; none of its contents are read."""
    try:
        cluster.ask(Question(kind.path(namespace, name), metadata_only=True))
    except (NotFoundError, AbsentKindError):
        return False
    return True


def items(cluster: Cluster, kind: Kind, namespace: str = "", *, labels: str = "", fields: str = "") -> list[Object]:
    """Return all objects of a kind, page by page; of all namespaces where none is given.  Raises ClusterError."""
    query = {"limit": _PAGE}
    if labels:
        query["labelSelector"] = labels
    if fields:
        query["fieldSelector"] = fields
    found: list[Object] = []
    while True:
        document: Object = cluster.ask(Question(kind.collection(namespace), query=query)).document
        # A list leaves out what all of its items have in common.
        common = {"apiVersion": kind.api_version, "kind": text(document, "kind").removesuffix("List")}
        found += [{**common, **item} for item in parts(document, "items")]
        following = text(document, "metadata", "continue")
        if not following:
            return found
        query["continue"] = following


def readable_items(cluster: Cluster, kind: Kind, namespace: str = "", *, labels: str = "") -> list[Object]:
    """Return what may be read of a kind: nothing where it does not exist or is not ours to see."""
    try:
        return items(cluster, kind, namespace, labels=labels)
    except (AbsentKindError, ForbiddenError):
        return []


def merge(cluster: Cluster, path: str, patch: Object, *, dry_run: bool = False) -> Object:
    """Change an object by a merge patch and return what it became.  Raises ClusterError."""
    return change(cluster, path, patch, MERGE_PATCH, dry_run=dry_run)


def change(
    cluster: Cluster, path: str, body: object, content_type: str, *, dry_run: bool = False, force: bool = False
) -> Object:
    """Change an object by a patch of any type and return what it became.  Raises ClusterError."""
    query = {"fieldManager": FIELD_MANAGER}
    if dry_run:
        query["dryRun"] = "All"
    if force:  # an apply then takes fields from others
        query["force"] = "true"
    question = Question(path, method="PATCH", query=query, body=body, content_type=content_type)
    return cast("Object", cluster.ask(question).document)


def owned_by(candidates: Sequence[Object], owners: Sequence[Object]) -> list[Object]:
    """Return those whose controller is one of the owners, by uid: a label proves nothing."""
    uids = {text(owner, "metadata", "uid") for owner in owners} - {""}
    return [it for it in candidates if controller_uid(it) in uids]


def controller_uid(candidate: Object) -> str:
    references = parts(candidate, "metadata", "ownerReferences")
    return next((text(it, "uid") for it in references if it.get("controller")), "")
