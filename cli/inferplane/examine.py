"""Gathering the facts for `diagnose`: files, the gateway, every agent, the router's metrics and its index."""

import httpx
from prometheus_client.parser import text_string_to_metric_families

from inferplane.diagnosis import AgentFacts, Facts, IndexFacts, RoutingFacts
from inferplane.errors import CommandError
from inferplane.index_facts import index_facts
from inferplane.instances import Instance
from inferplane.router_client import worker_status
from inferplane_operator.local import port_owner
from inferplane_operator.local.status import Status, WorkerPhase

_TIMEOUT_S = 5.0
_COMPARE_S = 30.0
"""Every worker tells all its blocks, twice."""
_EXACT = "inferplane_router_worker_kv_exact"
_PREDICTIONS = "inferplane_router_predictions_total"


def examine(instance: Instance, status: Status) -> Facts:
    alive = instance.running
    if not alive:
        return Facts(status=status, runner_alive=False)
    with httpx.Client(timeout=_TIMEOUT_S, trust_env=False) as client:
        return Facts(
            status=status,
            runner_alive=True,
            gateway_problem=_gateway_problem(client, status),
            agents={
                worker.name: _agent(worker.stream) for worker in status.workers if worker.phase is WorkerPhase.READY
            },
            routing=_routing(client, status),
            index=_index(client, status),
        )


def _gateway_problem(client: httpx.Client, status: Status) -> str:
    if not status.url:
        return "it was not started yet"
    try:
        answer = client.get(f"{status.url}/ready")
    except httpx.HTTPError as error:
        port = httpx.URL(status.url).port or 0
        by = port_owner.owner(port)
        return f"{status.url} does not answer ({type(error).__name__}){f'; {by} listens there' if by else ''}"
    return "" if answer.is_success else f"{status.url}/ready answers {answer.status_code}: {answer.text[:200]}"


def _agent(address: str) -> AgentFacts:
    try:
        return AgentFacts(status=worker_status(address))
    except CommandError as error:
        return AgentFacts(problem=error.message)


def _routing(client: httpx.Client, status: Status) -> RoutingFacts:
    try:
        answer = client.get(f"http://{status.metrics}/metrics")
        answer.raise_for_status()
    except httpx.HTTPError as error:
        return RoutingFacts(problem=f"the router's metrics at {status.metrics} cannot be read ({type(error).__name__})")
    return routing_facts(answer.text)


def _index(client: httpx.Client, status: Status) -> dict[str, IndexFacts]:
    """Let the router compare its index with what workers have; nothing where it cannot, which `_routing` tells."""
    try:
        answer = client.get(f"http://{status.metrics}/index", timeout=_COMPARE_S)
        answer.raise_for_status()
    except httpx.HTTPError:
        return {}
    return index_facts(answer.json())


def routing_facts(text: str) -> RoutingFacts:
    """Take out of the router's metrics what says whether it knows the caches."""
    approximate: dict[str, str] = {}
    counts: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name == _EXACT and sample.value == 0:
                approximate[sample.labels["worker"]] = sample.labels.get("cause", "") or "unknown"
            elif sample.name == _PREDICTIONS:
                counts[sample.labels["exact"]] = counts.get(sample.labels["exact"], 0.0) + sample.value
    mispredicted = int(sum(value for exact, value in counts.items() if exact != "yes"))
    return RoutingFacts(approximate, compared=int(sum(counts.values())), mispredicted=mispredicted)
