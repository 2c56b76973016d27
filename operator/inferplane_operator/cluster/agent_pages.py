"""What Pods' agents answer when they are asked: their metrics, and why they are not ready."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import httpx

from inferplane_operator.cluster.facts import Gathered
from inferplane_operator.cluster.pods import address_of, is_ready
from inferplane_operator.cluster.raw import items, part
from inferplane_operator.reconcile.values import Manifest, Observed
from inferplane_operator.render.names import AGENT_CONTAINER, DEFAULT_HTTP_PORT, DEFAULT_METRICS_PORT

_TIMEOUT_S = 2.0
_AGAIN_S = 5.0
_ASKED_AT_ONCE = 16
_WORDS = 300


class AgentPages:
    """Over HTTP, at Pods' addresses; also a fact source: `Observed.readiness`."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def metrics(self, address: str) -> str:
        try:
            answer = await self._client.get(
                f"http://{_host(address)}:{DEFAULT_METRICS_PORT}/metrics", timeout=_TIMEOUT_S
            )
        except httpx.HTTPError:
            return ""
        return answer.text if answer.is_success else ""

    async def add_to(self, observed: Observed) -> Gathered:
        asked = starting(observed.pods)[:_ASKED_AT_ONCE]
        if not asked:
            return Gathered(observed)
        words = await asyncio.gather(*(self._readiness(address_of(pod)) for pod in asked))
        found = {str(pod["metadata"]["name"]): said for pod, said in zip(asked, words, strict=True) if said}
        return Gathered(replace(observed, readiness=found), _AGAIN_S)

    def forget(self, namespace: str, name: str) -> None:
        """Nothing is kept."""

    async def _readiness(self, address: str) -> str:
        try:
            answer = await self._client.get(f"http://{_host(address)}:{DEFAULT_HTTP_PORT}/ready", timeout=_TIMEOUT_S)
            fields: object = answer.json()
        except (httpx.HTTPError, ValueError):
            return ""
        if answer.is_success or not isinstance(fields, dict):
            return ""
        return str(cast("dict[str, object]", fields).get("reason") or "")[:_WORDS]


def starting(pods: Sequence[Manifest]) -> list[Manifest]:
    """Return the Pods whose agent runs while they are not ready."""
    return [pod for pod in pods if _agent_runs(pod) and not is_ready(pod)]


def _agent_runs(pod: Manifest) -> bool:
    statuses = [*items(pod, "status", "initContainerStatuses"), *items(pod, "status", "containerStatuses")]
    return bool(address_of(pod)) and any(
        one.get("name") == AGENT_CONTAINER and "running" in part(one, "state") for one in statuses
    )


def _host(address: str) -> str:
    return f"[{address}]" if ":" in address else address
