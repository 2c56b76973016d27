"""Reads the counters of old and new workers during a rollout, and asks the judge.

Problem.  Counters live in the agents; the judge wants differences over one window; a worker that restarts counts from
zero again.
Idea.  While Pods of two revisions serve, each step reads `/metrics` of a few Pods on either side.  The first reading of
a Pod is its mark; a counter below its mark began anew and counts whole.
Trade-off.  A handful of the old workers stands for all of them.
Invariant.  Nothing is read when there is nothing to compare.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from prometheus_client.parser import text_string_to_metric_families

from inferplane_api.v1alpha1.inference_service import Rollout
from inferplane_api.v1alpha1.slo import Slo
from inferplane_operator.cluster.facts import Gathered
from inferplane_operator.cluster.pods import address_of, is_ready
from inferplane_operator.cluster.raw import part
from inferplane_operator.reconcile.canary import Counters, Limits, judge
from inferplane_operator.reconcile.values import Judgement, Manifest, Observed
from inferplane_operator.render.names import LABEL_REVISION
from inferplane_runtime.metrics.catalogue import agent

_AGAIN_S = 5.0
_SAMPLE = 8
_NOTICED = 0.05
"""Share of an objective's limit by which new workers have to be slower for anybody to notice."""
_FAULTS = frozenset({"engine_error", "engine_lost", "deadline"})
"""Outcomes that speak against a worker; a client that leaves or asks nonsense does not."""


class PageReader(Protocol):
    async def metrics(self, address: str, /) -> str:
        """Return the text of `/metrics` at a Pod's address; "" where it cannot be had."""
        ...


Totals = Mapping[str, float]


@dataclass(slots=True)
class _Window:
    """One rollout of one service."""

    revision: str
    began: float
    marks: dict[str, Totals] = field(default_factory=dict[str, Totals])
    latest: dict[str, Totals] = field(default_factory=dict[str, Totals])


class CanaryCounters:
    """A fact source: `Observed.canary`."""

    def __init__(self, reader: PageReader, *, now: Callable[[], float]) -> None:
        self._reader = reader
        self._now = now
        self._windows: dict[tuple[str, str], _Window] = {}

    async def add_to(self, observed: Observed) -> Gathered:
        metadata = observed.service["metadata"]
        key = (str(metadata.get("namespace", "")), str(metadata["name"]))
        revision = _newest(observed.pools)
        old, new = _sides(observed.pods, revision)
        if not revision or not old:
            self._windows.pop(key, None)
            return Gathered(observed)
        window = self._windows.get(key)
        if window is None or window.revision != revision:
            window = self._windows[key] = _Window(revision, self._now())
        if not new:
            window.began = self._now()
        await self._read(window, [*old[:_SAMPLE], *new[:_SAMPLE]])
        limits, elapsed_s = _limits(observed), self._now() - window.began
        verdict = judge(
            _counters(window, old), _counters(window, new), revision=revision, elapsed_s=elapsed_s, limits=limits
        )
        again = min(_AGAIN_S, limits.left_s(elapsed_s) or _AGAIN_S)
        return Gathered(replace(observed, canary=verdict), again if verdict.judgement is Judgement.WAIT else None)

    def forget(self, namespace: str, name: str) -> None:
        self._windows.pop((namespace, name), None)

    async def _read(self, window: _Window, pods: Sequence[Manifest]) -> None:
        pages = await asyncio.gather(*(self._reader.metrics(address_of(pod)) for pod in pods))
        for pod, page in zip(pods, pages, strict=True):
            if page:
                totals, uid = totals_of(page), str(pod["metadata"]["uid"])
                window.marks.setdefault(uid, totals)
                window.latest[uid] = totals


def _limits(observed: Observed) -> Limits:
    """Return the service's own limits; a spec that cannot be read has the usual ones, and its status says why."""
    spec = part(observed.service, "spec")
    try:
        rollout, slo = Rollout.model_validate(part(spec, "rollout")), Slo.model_validate(part(spec, "slo"))
    except ValueError:
        return Limits()
    return replace(
        Limits.within(rollout.canary_time_s),
        least_slower_prompt_s=_NOTICED * slo.ttft_s,
        least_slower_token_s=_NOTICED * slo.tpot_s,
    )


def totals_of(page: str) -> Totals:
    """Sum the samples of an agent's page that the judge wants."""
    totals: dict[str, float] = {}
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            name = _NAMES.get(sample.name)
            if name is None:
                continue
            totals[name] = totals.get(name, 0.0) + sample.value
            if name == "requests" and sample.labels.get("outcome") in _FAULTS:
                totals["errors"] = totals.get("errors", 0.0) + sample.value
    return totals


_NAMES = {
    agent.REQUESTS.name: "requests",
    agent.PROMPT_TOKENS.name: "prompt",
    agent.CACHED_TOKENS.name: "cached",
    agent.OUTPUT_TOKENS.name: "output",
    f"{agent.PREFILL_TIME.name}_sum": "prefill_s",
    f"{agent.PREFILL_TIME.name}_count": "prefills",
    f"{agent.REQUEST_DURATION.name}_sum": "duration_s",
    f"{agent.TTFT.name}_sum": "ttft_s",
    agent.CANARY_FAILURES.name: "canary_failures",
}


def _counters(window: _Window, pods: Sequence[Manifest]) -> Counters:
    sums: dict[str, float] = {}
    for pod in pods:
        uid = str(pod["metadata"]["uid"])
        for name, value in _since(window.marks.get(uid, {}), window.latest.get(uid, {})).items():
            sums[name] = sums.get(name, 0.0) + value
    return Counters(
        requests=int(sums.get("requests", 0)),
        errors=int(sums.get("errors", 0)),
        prefills=int(sums.get("prefills", 0)),
        uncached_tokens=sums.get("prompt", 0.0) - sums.get("cached", 0.0),
        prefill_s=sums.get("prefill_s", 0.0),
        output_tokens=sums.get("output", 0.0),
        decode_s=max(0.0, sums.get("duration_s", 0.0) - sums.get("ttft_s", 0.0)),
        canary_failures=int(sums.get("canary_failures", 0)),
    )


def _since(mark: Totals, latest: Totals) -> Totals:
    began_anew = any(latest.get(name, 0.0) < value for name, value in mark.items())
    return latest if began_anew else {name: value - mark.get(name, 0.0) for name, value in latest.items()}


def _newest(pools: Sequence[Manifest]) -> str:
    """Return the revision that the pools are to have; "" while they disagree."""
    revisions = {str(pool["spec"].get("revision", "")) for pool in pools}
    return revisions.pop() if len(revisions) == 1 else ""


def _sides(pods: Sequence[Manifest], revision: str) -> tuple[list[Manifest], list[Manifest]]:
    """Split ready Pods into those of older revisions and those of the newest."""
    ready = [pod for pod in pods if is_ready(pod) and address_of(pod)]
    new = [pod for pod in ready if part(pod, "metadata", "labels").get(LABEL_REVISION) == revision]
    return [pod for pod in ready if pod not in new], new
