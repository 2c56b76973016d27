"""Where an API server keeps which kind of object."""

from dataclasses import dataclass
from typing import Final

from inferplane_api.v1alpha1.metadata import API_VERSION


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of object, by its path."""

    api_version: str
    plural: str
    namespaced: bool = True

    def collection(self, namespace: str = "") -> str:
        """Return the path of all objects in a namespace; of all namespaces where it is empty."""
        root = f"/api/{self.api_version}" if "/" not in self.api_version else f"/apis/{self.api_version}"
        return (
            f"{root}/namespaces/{namespace}/{self.plural}" if namespace and self.namespaced else f"{root}/{self.plural}"
        )

    def path(self, namespace: str, name: str) -> str:
        return f"{self.collection(namespace)}/{name}"


SERVICES: Final = Kind(API_VERSION, "inferenceservices")
PREFILL_POOLS: Final = Kind(API_VERSION, "prefillpools")
DECODE_POOLS: Final = Kind(API_VERSION, "decodepools")
KV_STORES: Final = Kind(API_VERSION, "kvstores")
ADAPTERS: Final = Kind(API_VERSION, "loraadapters")
ROUTES: Final = Kind(API_VERSION, "modelroutes")
DEPLOYMENTS: Final = Kind("apps/v1", "deployments")
REPLICA_SETS: Final = Kind("apps/v1", "replicasets")
STATEFUL_SETS: Final = Kind("apps/v1", "statefulsets")
LEADER_WORKER_SETS: Final = Kind("leaderworkerset.x-k8s.io/v1", "leaderworkersets")
CONTROLLER_REVISIONS: Final = Kind("apps/v1", "controllerrevisions")
PODS: Final = Kind("v1", "pods")
EVENTS: Final = Kind("v1", "events")
NETWORK_SERVICES: Final = Kind("v1", "services")
CLAIMS: Final = Kind("v1", "persistentvolumeclaims")
SECRETS: Final = Kind("v1", "secrets")
CONFIG_MAPS: Final = Kind("v1", "configmaps")
NODES: Final = Kind("v1", "nodes", namespaced=False)
DISRUPTION_BUDGETS: Final = Kind("policy/v1", "poddisruptionbudgets")
LEASES: Final = Kind("coordination.k8s.io/v1", "leases")
STORAGE_CLASSES: Final = Kind("storage.k8s.io/v1", "storageclasses", namespaced=False)
RESOURCE_DEFINITIONS: Final = Kind("apiextensions.k8s.io/v1", "customresourcedefinitions", namespaced=False)
RUNTIME_CLASSES: Final = Kind("node.k8s.io/v1", "runtimeclasses", namespaced=False)
ADMISSION_POLICIES: Final = Kind("admissionregistration.k8s.io/v1", "validatingadmissionpolicies", namespaced=False)
ACCESS_REVIEWS: Final = Kind("authorization.k8s.io/v1", "selfsubjectaccessreviews", namespaced=False)
