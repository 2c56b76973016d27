"""Each router of a cluster compares its index with what a service's workers hold, asked through the API server.

Problem: a router's index is a copy, and only the router can say whether it is a true one; its `/index` is reachable
from within the cluster alone.  Idea: the API server's proxy, which needs the right to `get pods/proxy` and nothing of
this machine.  Trade-off: a router compares the workers of all its services, and only those of one are shown.
Invariant: what could not be asked is said, and is no problem of the service.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from inferplane.cluster import ClusterError, Connection, Object, Question
from inferplane.diagnosis import Finding, IndexFacts, index_finding
from inferplane.index_facts import index_facts
from inferplane.kube import kinds
from inferplane.kube.fields import name_of, namespace_of
from inferplane.kube.gateways import GatewayPod, gateway_pods

_METRICS_PORT: Final = 9090
_CHECK: Final = "block index"


def compare_indexes(connection: Connection, workers: Sequence[Object]) -> list[Finding]:
    """Return a finding for each worker's Pod and router; none where no worker's Pod is there."""
    ours = {f"{namespace_of(it)}/{name_of(it)}": name_of(it) for it in workers}
    try:
        routers = gateway_pods(connection) if ours else []
    except ClusterError as error:
        return [_not_compared("the routers", error)]
    return [finding for router in routers for finding in _compared(connection, router, ours.get)]


def _compared(connection: Connection, router: GatewayPod, pod_of: Callable[[str], str | None]) -> Iterator[Finding]:
    try:
        facts = _ask(connection, router)
    except ClusterError as error:
        yield _not_compared(f"router {router.namespace}/{router.name}", error)
        return
    for worker, found in sorted(facts.items()):
        if (pod := pod_of(worker)) is not None:
            check = f"pod {pod} {_CHECK} of {router.name}"
            yield index_finding(check, found, f"`inferplane logs {pod} -c agent`")


def _ask(connection: Connection, router: GatewayPod) -> dict[str, IndexFacts]:
    """Wait for a router's comparison, a second or more.  Raises ClusterError."""
    path = f"{kinds.PODS.path(router.namespace, f'{router.name}:{_METRICS_PORT}')}/proxy/index"
    try:
        return index_facts(json.loads("".join(connection.cluster.lines(Question(path)))))
    except (ValueError, KeyError, TypeError) as error:
        raise ClusterError(f"it answers what this command does not understand ({type(error).__name__})") from error


def _not_compared(who: str, error: ClusterError) -> Finding:
    return Finding(_CHECK, ok=True, detail=f"{who} could not be asked: {error.message}")
