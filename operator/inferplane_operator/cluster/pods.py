"""What the shell reads of a Pod."""

from inferplane_operator.cluster.raw import items, text
from inferplane_operator.reconcile.values import Manifest


def is_ready(pod: Manifest) -> bool:
    conditions = items(pod, "status", "conditions")
    return any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)


def address_of(pod: Manifest) -> str:
    """Return the Pod's address, "" while it has none."""
    return text(pod, "status", "podIP")
