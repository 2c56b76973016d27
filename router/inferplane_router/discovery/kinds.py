"""What is watched in a cluster, and how little of it is asked for.

Owners (pools, Deployments, ReplicaSets, ...) are asked for by metadata only: their Pod templates, which are most of
their bytes, say nothing here.  Label selectors keep everybody else's objects out of the answers; whether an object is
ours is decided by its controller references alone.
Workers that span nodes are run by LeaderWorkerSets, which a cluster may not have: those two kinds may be absent.
"""

from typing import Final

from inferplane_api.v1alpha1.metadata import GROUP
from inferplane_api.workload import COMPONENT_WORKER, LABEL_COMPONENT, LABEL_POOL
from inferplane_runtime.kube.kinds import WatchedKind

_WORKERS: Final = f"{LABEL_COMPONENT}={COMPONENT_WORKER}"
_OF_LEADER_WORKER_SETS: Final = "leaderworkerset.sigs.k8s.io/name"
"""On the StatefulSets that a LeaderWorkerSet makes; they carry none of our labels."""


def _ours(kind: str, plural: str, *, metadata_only: bool = False) -> WatchedKind:
    return WatchedKind(kind, plural, version="v1alpha1", group=GROUP, metadata_only=metadata_only)


INFERENCE_SERVICE: Final = _ours("InferenceService", "inferenceservices")
LORA_ADAPTER: Final = _ours("LoRAAdapter", "loraadapters")
MODEL_ROUTE: Final = _ours("ModelRoute", "modelroutes")
PREFILL_POOL: Final = _ours("PrefillPool", "prefillpools", metadata_only=True)
DECODE_POOL: Final = _ours("DecodePool", "decodepools", metadata_only=True)
DEPLOYMENT: Final = WatchedKind("Deployment", "deployments", group="apps", selector=LABEL_POOL, metadata_only=True)
REPLICA_SET: Final = WatchedKind("ReplicaSet", "replicasets", group="apps", selector=LABEL_POOL, metadata_only=True)
STATEFUL_SET: Final = WatchedKind(
    "StatefulSet",
    "statefulsets",
    group="apps",
    selector=_OF_LEADER_WORKER_SETS,
    metadata_only=True,
    optional=True,
)
LEADER_WORKER_SET: Final = WatchedKind(
    "LeaderWorkerSet",
    "leaderworkersets",
    group="leaderworkerset.x-k8s.io",
    selector=LABEL_POOL,
    metadata_only=True,
    optional=True,
)
POD: Final = WatchedKind("Pod", "pods", selector=_WORKERS)

KINDS: Final = (
    INFERENCE_SERVICE,
    LORA_ADAPTER,
    MODEL_ROUTE,
    PREFILL_POOL,
    DECODE_POOL,
    DEPLOYMENT,
    REPLICA_SET,
    STATEFUL_SET,
    LEADER_WORKER_SET,
    POD,
)
