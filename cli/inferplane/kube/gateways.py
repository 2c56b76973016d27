"""The routers' Pods of a cluster."""

from dataclasses import dataclass

from inferplane.cluster import Connection, ForbiddenError, Object
from inferplane.kube import kinds
from inferplane.kube.fields import name_of, namespace_of, text
from inferplane.kube.objects import items, readable_items
from inferplane_operator.render.names import LABEL_COMPONENT

_GATEWAYS = f"{LABEL_COMPONENT}=gateway"


@dataclass(frozen=True, slots=True)
class GatewayPod:
    namespace: str
    name: str


def gateway_pods(connection: Connection) -> list[GatewayPod]:
    """Return the running routers, of all namespaces where they may be seen."""
    try:
        found: list[Object] = items(connection.cluster, kinds.PODS, labels=_GATEWAYS)
    except ForbiddenError:
        found = readable_items(connection.cluster, kinds.PODS, connection.namespace, labels=_GATEWAYS)
    running = [it for it in found if text(it, "status", "phase") == "Running"]
    return [GatewayPod(namespace_of(it), name_of(it)) for it in running]
