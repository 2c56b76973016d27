"""Each line of a foreseen change is held against what happens when the edit is made."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inferplane_operator.reconcile.change import Change, change
from inferplane_operator.reconcile.core import PureCore
from inferplane_operator.reconcile.testing import FakeCluster

Build = Callable[..., FakeCluster]
DEVICES: dict[str, Any] = {
    "model": {"name": "m", "source": {"path": "/m"}},
    "engine": {"type": "vllm", "kvCacheMemory": "1Gi"},
}


def foreseen(cluster: FakeCluster, spec: dict[str, Any], **more: Any) -> Change:
    wanted = copy.deepcopy(cluster.service)
    wanted["spec"] = {**wanted["spec"], **spec}
    wanted["spec"] = {key: value for key, value in wanted["spec"].items() if value is not None}
    return change(cluster.observed(), wanted, cluster.core.settings, **more)


def devices(cluster: FakeCluster) -> int:
    """Return the devices of Pods that do not drain, from what they ask for."""
    living = [pod for pod in cluster.pods() if not pod["metadata"].get("deletionTimestamp")]
    per_pod = {found["metadata"]["uid"]: found["spec"]["template"] for found in cluster.of("Deployment")}
    total = 0
    for pod in living:
        containers = per_pod[pod["metadata"]["ownerReferences"][0]["uid"]]["spec"]["containers"]
        total += int(containers[0]["resources"].get("limits", {}).get("nvidia.com/gpu", 0))
    return total


def carried_out(cluster: FakeCluster, spec: dict[str, Any]) -> Change:
    """Make the edit, watch, and write down what happened as a change."""
    before = {pod["metadata"]["name"]: pod["metadata"]["labels"]["inferplane.dev/pool"] for pod in cluster.pods()}
    wanted = {pool["metadata"]["name"]: pool["spec"]["replicas"] for pool in pools(cluster)}
    revision, names, peak = cluster.service["status"]["revision"], set(served(cluster)), devices(cluster)
    now = peak
    cluster.edit({key: value for key, value in spec.items() if value is not None})
    for key, value in spec.items():
        if value is None:
            cluster.service["spec"].pop(key, None)
    for _ in range(24):
        cluster.reconcile()
        peak = max(peak, devices(cluster))
        cluster.end_pods()
        cluster.start_pods()
        cluster.clock_s += 1
    after = {pod["metadata"]["name"]: pod["metadata"]["labels"]["inferplane.dev/pool"] for pod in cluster.pods()}
    started = [pool for name, pool in after.items() if name not in before]
    then = {pool["metadata"]["name"]: pool["spec"]["replicas"] for pool in pools(cluster)}
    counts = {name: (wanted.get(name, 0), then.get(name, 0)) for name in {*wanted, *then}}
    return Change(
        old_revision=revision,
        new_revision=cluster.service["status"]["revision"],
        stops=tuple(sorted(name for name in before if name not in after)),
        starts={pool: started.count(pool) for pool in set(started)},
        replicas={name: pair for name, pair in counts.items() if pair[0] != pair[1]},
        devices_now=now,
        devices_peak=peak,
        devices_after=devices(cluster),
        names_lost=tuple(sorted(names - set(served(cluster)))),
        names_gained=tuple(sorted(set(served(cluster)) - names)),
    )


def pools(cluster: FakeCluster) -> list[dict[str, Any]]:
    return [*cluster.of("PrefillPool"), *cluster.of("DecodePool")]


def served(cluster: FakeCluster) -> list[str]:
    return list(cluster.service["status"]["servedNames"])


def comparable(found: Change) -> dict[str, Any]:
    kept = ("old_revision", "new_revision", "replicas", "devices_now", "devices_peak", "devices_after", "starts")
    return {
        **{name: getattr(found, name) for name in kept},
        "stops": sorted(found.stops),
        "names_lost": sorted(found.names_lost),
        "names_gained": sorted(found.names_gained),
    }


EDITS: dict[str, dict[str, Any]] = {
    "nothing": {},
    "objective": {"slo": {"ttft": "1s"}},
    "engine": {"engine": {**DEVICES["engine"], "maxNumSeqs": 8}},
    "more decode": {"decode": {"replicas": 4, "maxReplicas": 8}},
    "less decode": {"decode": {"replicas": 1, "maxReplicas": 8}},
    "engine and size": {"engine": {**DEVICES["engine"], "maxNumSeqs": 8}, "decode": {"replicas": 4, "maxReplicas": 8}},
    "names": {"model": {**DEVICES["model"], "servedNames": ["n", "o"]}},
    "no prefill": {"prefill": None, "mode": "aggregated"},
    "no surge": {"rollout": {"maxSurge": 0, "maxUnavailable": 1}, "drainTimeout": "10s"},
    "budget": {"budget": {"maxDevices": 3}, "drainTimeout": "10s"},
    "two devices": {"decode": {"replicas": 2, "maxReplicas": 8, "parallelism": {"tensor": 2}}},
    "to none": {"decode": {"replicas": 0, "minReplicas": 0, "maxReplicas": 8}},
}


@pytest.mark.slow
@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS.keys())
def test_what_is_foreseen_happens(running: Build, edit: dict[str, Any]) -> None:
    cluster = running(**DEVICES)
    before = foreseen(cluster, edit)

    assert before.problem == ""
    assert comparable(before) == comparable(carried_out(cluster, edit))


def sized(replicas: int, **more: Any) -> dict[str, Any]:
    return {"replicas": replicas, "minReplicas": 0, "maxReplicas": 8, **more}


SPECS = st.fixed_dictionaries(
    {
        "decode": st.builds(sized, st.integers(1, 4)),
        "prefill": st.one_of(st.none(), st.builds(sized, st.integers(1, 3))),
        "rollout": st.sampled_from([{"maxSurge": 1}, {"maxSurge": 2}, {"maxSurge": 0, "maxUnavailable": 1}]),
        "drainTimeout": st.sampled_from(["10s", "20s"]),
        "slo": st.sampled_from([{"ttft": "1s"}, {"ttft": "2s"}]),
    }
)


@pytest.mark.slow
@settings(deadline=None, max_examples=6)
@given(SPECS, SPECS)
def test_any_edit_does_what_was_foreseen(before: dict[str, Any], after: dict[str, Any]) -> None:
    spec = {key: value for key, value in {**DEVICES, **before}.items() if value is not None}
    cluster = FakeCluster(
        {
            "apiVersion": "inferplane.dev/v1alpha1",
            "kind": "InferenceService",
            "metadata": {"name": "demo"},
            "spec": spec,
        }
    )
    cluster.settle()

    assert comparable(foreseen(cluster, after)) == comparable(carried_out(cluster, after))


def test_the_fields_that_restart_workers_are_named(running: Build) -> None:
    cluster = running(**DEVICES)
    edit = {"engine": {**DEVICES["engine"], "env": {"A": "1"}}, "slo": {"ttft": "1s"}, "drainTimeout": "10s"}

    assert foreseen(cluster, edit).fields == ("spec.drainTimeout", "spec.engine.env")
    assert foreseen(cluster, {"slo": {"ttft": "1s"}}).fields == ()
    assert foreseen(cluster, {"slo": {"ttft": "1s"}}).empty


def test_cached_blocks_are_those_of_pods_that_end(running: Build) -> None:
    cluster = running(**DEVICES)
    blocks = {pod["metadata"]["name"]: 100 for pod in cluster.pods()}

    assert foreseen(cluster, {"drainTimeout": "10s"}, cached_blocks=blocks).cached_blocks_lost == 300
    assert foreseen(cluster, {"decode": sized(1)}, cached_blocks=blocks).cached_blocks_lost == 100
    assert foreseen(cluster, {"drainTimeout": "10s"}).cached_blocks_lost is None


def test_an_invalid_edit_is_told(running: Build) -> None:
    assert "spec.slo.ttft" in foreseen(running(), {"slo": {"ttft": "0s"}}).problem


@pytest.mark.parametrize(("annotation", "word"), [("paused", "paused"), ("freeze", "frozen")])
def test_what_is_held_is_told_and_ends_no_pod(running: Build, annotation: str, word: str) -> None:
    cluster = running()
    cluster.annotate(**{annotation: "true"})
    found = foreseen(cluster, {"drainTimeout": "10s"})

    assert word in found.problem
    assert found.stops == ()


def test_a_branch_whose_commit_is_not_known_is_told(running: Build) -> None:
    found = foreseen(running(), {"model": {"name": "m", "source": {"hf": "org/model"}, "revision": "main"}})

    assert "not resolved" in found.problem


def test_a_service_that_is_not_there_yet_starts_from_nothing() -> None:
    spec = {"model": {"name": "m"}, "engine": {"type": "sim"}, "prefill": {}, "decode": sized(2)}
    new = {
        "apiVersion": "inferplane.dev/v1alpha1",
        "kind": "InferenceService",
        "metadata": {"name": "demo"},
        "spec": spec,
    }
    observed = FakeCluster(copy.deepcopy(new)).observed()
    observed.service["metadata"].pop("uid")
    found = change(observed, new, PureCore().settings)

    assert (found.old_revision, found.stops) == ("", ())
    assert found.starts == {"demo-prefill": 1, "demo-decode": 2}
    assert found.replicas == {"demo-prefill": (0, 1), "demo-decode": (0, 2)}
    assert found.names_gained == ("m",)
