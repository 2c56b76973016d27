"""Routing policies by name; adding one touches this table alone."""

from collections.abc import Callable, Mapping
from typing import Final

from inferplane_router.core.placing import Policy
from inferplane_router.core.plugins.kv_aware import KvAware
from inferplane_router.core.plugins.least_request import LeastRequest
from inferplane_router.core.plugins.round_robin import RoundRobin

POLICIES: Final[dict[str, Callable[[], Policy]]] = {
    "kv-aware": KvAware,
    "least-request": LeastRequest,
    "round-robin": RoundRobin,
}


def make_policy(name: str, policies: Mapping[str, Callable[[], Policy]] = POLICIES) -> Policy:
    """Make the policy that a service names, out of these."""
    if name not in policies:
        raise ValueError(f"policy {name!r} is not known; use one of {', '.join(sorted(policies))}")
    return policies[name]()
