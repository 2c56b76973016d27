"""Every metric of the product, one module a component: the only place where names of metrics stand."""

from inferplane_runtime.metrics.catalogue import agent, gateway, kube_operator, kv_store, planner, router, tracing
from inferplane_runtime.metrics.spec import MetricSpec

__all__ = ["ALL", "agent", "gateway", "kube_operator", "kv_store", "planner", "router", "tracing"]

ALL: tuple[MetricSpec, ...] = (
    *gateway.ALL,
    *router.ALL,
    *agent.ALL,
    *kube_operator.ALL,
    *kv_store.ALL,
    *planner.ALL,
    *tracing.ALL,
)
