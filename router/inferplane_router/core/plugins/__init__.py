"""Routing policies by name; adding one touches this table alone."""

from collections.abc import Callable, Mapping
from typing import Final

from inferplane_router.core.placing import Chooser, Policy, in_steps
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


def chooser_of(policy: Policy) -> Chooser:
    """Let a policy choose at once where it can; one that is derived from it, in steps, since it may pick otherwise."""
    return policy.decide if isinstance(policy, KvAware) and type(policy) is KvAware else in_steps(policy)
