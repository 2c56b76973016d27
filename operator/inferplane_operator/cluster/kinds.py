"""The kinds that the operator has to do with: how they are addressed, and which of their objects are watched.

KServe has a kind `InferenceService` as well, so a kind is never named without its API version.
"""

from dataclasses import dataclass
from typing import Final

from inferplane_api.v1alpha1.metadata import API_VERSION
from inferplane_operator.render.names import LABEL_SERVICE


@dataclass(frozen=True, slots=True)
class Kind:
    """A namespaced kind."""

    api_version: str
    kind: str
    plural: str
    selector: str = ""
    """Labels of the objects that are watched; they only limit the traffic, trust comes from owners."""

    @property
    def group(self) -> str:
        return self.api_version.partition("/")[0] if "/" in self.api_version else ""

    @property
    def version(self) -> str:
        return self.api_version.rpartition("/")[2]

    @property
    def root(self) -> str:
        return f"/apis/{self.api_version}" if self.group else f"/api/{self.api_version}"

    def path(self, namespace: str, name: str = "", subresource: str = "") -> str:
        """Return the path of an object, of a namespace's collection, or of the cluster's (no namespace)."""
        parts = [self.root, *(["namespaces", namespace] if namespace else []), self.plural, name, subresource]
        return "/".join(part for part in parts if part)


def _ours(kind: str, plural: str) -> Kind:
    return Kind(API_VERSION, kind, plural)


SERVICE: Final = _ours("InferenceService", "inferenceservices")
PREFILL_POOL: Final = _ours("PrefillPool", "prefillpools")
DECODE_POOL: Final = _ours("DecodePool", "decodepools")
KV_STORE: Final = _ours("KVStore", "kvstores")
ADAPTER: Final = _ours("LoRAAdapter", "loraadapters")
ROUTE: Final = _ours("ModelRoute", "modelroutes")
OURS: Final = (SERVICE, PREFILL_POOL, DECODE_POOL, KV_STORE, ADAPTER, ROUTE)
POOLS: Final = (PREFILL_POOL, DECODE_POOL)

DEPLOYMENT: Final = Kind("apps/v1", "Deployment", "deployments", LABEL_SERVICE)
REPLICA_SET: Final = Kind("apps/v1", "ReplicaSet", "replicasets", LABEL_SERVICE)
CONTROLLER_REVISION: Final = Kind("apps/v1", "ControllerRevision", "controllerrevisions", LABEL_SERVICE)
POD: Final = Kind("v1", "Pod", "pods", LABEL_SERVICE)
K8S_SERVICE: Final = Kind("v1", "Service", "services", LABEL_SERVICE)
DISRUPTION_BUDGET: Final = Kind("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets", LABEL_SERVICE)
BUILT_IN: Final = (DEPLOYMENT, REPLICA_SET, CONTROLLER_REVISION, POD, K8S_SERVICE, DISRUPTION_BUDGET)

LEADER_WORKER_SET: Final = Kind("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "leaderworkersets", LABEL_SERVICE)
STATEFUL_SET: Final = Kind("apps/v1", "StatefulSet", "statefulsets", "leaderworkerset.sigs.k8s.io/name")
"""Between a LeaderWorkerSet and its Pods; watched only where the former exists."""
OPTIONAL: Final = (LEADER_WORKER_SET, STATEFUL_SET)

PROMETHEUS_RULE: Final = Kind("monitoring.coreos.com/v1", "PrometheusRule", "prometheusrules", LABEL_SERVICE)
"""Alerts of a service's objectives; watched and written where the cluster has it and the release asks for them."""

RESOURCE_CLAIM_TEMPLATE: Final = Kind("resource.k8s.io/v1", "ResourceClaimTemplate", "resourceclaimtemplates")
"""Written and not watched: whoever writes one keeps what came of it."""
SECRET: Final = Kind("v1", "Secret", "secrets")
"""Made, and never read or kept."""
EVENT: Final = Kind("events.k8s.io/v1", "Event", "events")
LEASE: Final = Kind("coordination.k8s.io/v1", "Lease", "leases")

_KNOWN: Final = (*OURS, *BUILT_IN, *OPTIONAL, PROMETHEUS_RULE, RESOURCE_CLAIM_TEMPLATE, SECRET, EVENT, LEASE)
_ALL: Final = {(kind.api_version, kind.kind): kind for kind in _KNOWN}


def kind_of(api_version: str, kind: str) -> Kind:
    """Look a kind up; one that is not in the table is a mistake of the program."""
    found = _ALL.get((api_version, kind))
    if found is None:
        raise ValueError(f"{kind} of {api_version} is not a kind that the operator writes")
    return found
