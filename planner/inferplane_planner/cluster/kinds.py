"""What a planner watches in a cluster: services, their pools, and where the routers are.

It reads no Pods: how many serve, what they wait for and how long they took to start is in the status of their pool,
whose operator knows which Pods belong to it.
"""

from typing import Final

from inferplane_api.v1alpha1.metadata import GROUP
from inferplane_runtime.kube.kinds import WatchedKind


def _ours(kind: str, plural: str) -> WatchedKind:
    return WatchedKind(kind, plural, version="v1alpha1", group=GROUP)


INFERENCE_SERVICE: Final = _ours("InferenceService", "inferenceservices")
PREFILL_POOL: Final = _ours("PrefillPool", "prefillpools")
DECODE_POOL: Final = _ours("DecodePool", "decodepools")


def endpoints_of(service: str) -> WatchedKind:
    """Return the slices of a Service's endpoints."""
    selector = f"kubernetes.io/service-name={service}"
    return WatchedKind("EndpointSlice", "endpointslices", group="discovery.k8s.io", selector=selector)
