"""The pure function against a naive model: links broken at random, names claimed at random, seen in any order."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferplane_router.discovery import reading
from inferplane_router.discovery.composing import Composed, compose
from inferplane_router.discovery.fake_cluster import Object
from inferplane_router.discovery.records import Picture
from inferplane_router.discovery.testing import Plant, adapter, manifest, route, service
from inferplane_runtime.kube.table import uid_of

pytestmark = pytest.mark.slow
NAMES = ["m", "n", "o"]
NAMESPACES = ["a", "b"]
LINKS = [
    ("PrefillPool", "inferplane.dev/v1alpha1", ["InferenceService"]),
    ("DecodePool", "inferplane.dev/v1alpha1", ["InferenceService"]),
    ("Deployment", "apps/v1", ["PrefillPool", "DecodePool"]),
    ("ReplicaSet", "apps/v1", ["Deployment", "DecodePool"]),
    ("LeaderWorkerSet", "leaderworkerset.x-k8s.io/v1", ["DecodePool"]),
    ("StatefulSet", "apps/v1", ["LeaderWorkerSet", "Deployment"]),
    ("Pod", "v1", ["ReplicaSet", "StatefulSet", "Deployment"]),
]


@st.composite
def clusters(draw: st.DrawFn) -> list[Object]:
    """Draw objects of a cluster; about every fifth link is broken in one way or another."""
    objects: list[Object] = []

    def add(raw: Object) -> None:
        metadata = raw["metadata"]
        metadata["uid"] = f"uid-{len(objects)}"
        metadata["creationTimestamp"] = f"2026-01-01T00:00:0{draw(st.integers(0, 2))}Z"
        objects.append(raw)

    for number in range(draw(st.integers(1, 3))):
        names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=2, unique=True))
        add(service(f"s{number}", *names, namespace=draw(st.sampled_from(NAMESPACES))))
        if draw(st.integers(0, 9)) == 0:
            objects[-1]["spec"] = {"mode": "sideways"}
    for name in draw(st.lists(st.sampled_from([*NAMES, "p"]), max_size=2, unique=True)):
        add(adapter(name, draw(st.sampled_from(["s0", "s1"])), namespace=draw(st.sampled_from(NAMESPACES))))
        aliased = route(f"r-{name}", "x", namespace=draw(st.sampled_from(NAMESPACES)))
        add({**aliased, "spec": {**aliased["spec"], "aliases": [draw(st.sampled_from([*NAMES, "q"]))]}})
    for kind, version, parents in LINKS:
        for _ in range(draw(st.integers(0, 4))):
            owners = [each for each in objects if each["kind"] in parents]
            if owners:
                add(_below(draw, draw(st.sampled_from(owners)), version, kind, len(objects)))
    return objects


def _below(draw: st.DrawFn, owner: Object, version: str, kind: str, number: int) -> Object:
    status = {"podIP": draw(st.sampled_from(["", "10.0.0.1"])), "phase": draw(st.sampled_from(["Running", "Failed"]))}
    raw = Plant.below(owner, version, kind, str(number), status=status)
    reference: Object = raw["metadata"]["ownerReferences"][0]
    match draw(st.integers(0, 24)):
        case 0:
            raw["metadata"]["ownerReferences"] = []
        case 1:
            reference["uid"] = "uid-0"
        case 2:
            reference["controller"] = False
        case 3:
            reference["name"] = "another"
        case 4:
            raw["metadata"]["namespace"] = "elsewhere"
        case _:
            pass
    return raw


def picture_of(objects: Sequence[Object]) -> Picture:
    def of(kind: str) -> list[Object]:
        return [each for each in objects if each["kind"] == kind]

    return Picture(
        services={uid_of(each): reading.read_service(each, None) for each in of("InferenceService")},
        adapters={uid_of(each): reading.read_adapter(each, None) for each in of("LoRAAdapter")},
        routes={uid_of(each): reading.read_route(each, None) for each in of("ModelRoute")},
        owners={
            kind: {uid_of(each): reading.read_owned(kind, each) for each in of(kind)}
            for kind, _, _ in LINKS
            if kind != "Pod"
        },
        pods={uid_of(each): reading.read_pod(each) for each in of("Pod")},
    )


# The naive model -------------------------------------------------------------------------------------------------


def parent(raw: Object, objects: Sequence[Object]) -> Object | None:
    for reference in raw["metadata"].get("ownerReferences", ()):
        for each in objects:
            metadata = each["metadata"]
            if (
                reference["controller"]
                and reference["uid"] == metadata["uid"]
                and reference["kind"] == each["kind"]
                and reference["name"] == metadata["name"]
                and raw["metadata"]["namespace"] == metadata["namespace"]
            ):
                return each
    return None


def lineage(raw: Object, objects: Sequence[Object]) -> list[Object]:
    found = [raw]
    while (above := parent(found[-1], objects)) is not None:
        found.append(above)
    return found


WHOLE = [
    ["Pod", "ReplicaSet", "Deployment", "PrefillPool", "InferenceService"],
    ["Pod", "ReplicaSet", "Deployment", "DecodePool", "InferenceService"],
    ["Pod", "StatefulSet", "LeaderWorkerSet", "DecodePool", "InferenceService"],
]


def claims(objects: Sequence[Object]) -> list[tuple[str, str, str, str]]:
    """(name, since, namespace, service) of everything that services and adapters claim."""
    found: list[tuple[str, str, str, str]] = []
    for each in objects:
        metadata = each["metadata"]
        since, namespace, name = metadata["creationTimestamp"], metadata["namespace"], metadata["name"]
        if each["kind"] != "InferenceService" or "model" not in each["spec"]:
            continue
        found += [(served, since, namespace, name) for served in each["spec"]["model"]["servedNames"]]
        found += [
            (other["metadata"]["name"], max(since, other["metadata"]["creationTimestamp"]), namespace, name)
            for other in objects
            if other["kind"] == "LoRAAdapter"
            and (other["metadata"]["namespace"], other["spec"]["service"]) == (namespace, name)
        ]
    return found


def names_of(composed: Composed) -> dict[str, tuple[str, str]]:
    return {
        name: (entry.namespace, entry.name)
        for entry in composed.services
        for name in (*entry.served_names, *entry.adapters)
    }


def naive_holders(objects: Sequence[Object]) -> dict[str, tuple[str, str]]:
    wanted = claims(objects)
    return {
        name: min((since, namespace, owner) for claimed, since, namespace, owner in wanted if claimed == name)[1:]
        for name in {claim[0] for claim in wanted}
    }


@given(clusters())
def test_workers_are_the_pods_whose_lineage_is_whole(objects: list[Object]) -> None:
    composed = compose(picture_of(objects))
    served = {(entry.namespace, entry.name) for entry in composed.services}
    alive = [each for each in objects if each["kind"] == "Pod" and each["status"]["phase"] == "Running"]
    lines = [lineage(each, objects) for each in alive]
    whole = [line for line in lines if [each["kind"] for each in line] in WHOLE]
    expected = {
        f"{pod['metadata']['namespace']}/{pod['metadata']['name']}": above[-1]["metadata"]["name"]
        for pod, *above in whole
        if pod["status"]["podIP"] and (pod["metadata"]["namespace"], above[-1]["metadata"]["name"]) in served
    }

    assert {worker.worker_id: worker.service for worker in composed.workers} == expected
    assert composed.ignored["unowned_pod"] == len(alive) - len(whole)  # type: ignore[index]  # a StrEnum's value


@given(clusters())
def test_each_name_is_the_oldest_claimants(objects: list[Object]) -> None:
    composed = compose(picture_of(objects))
    held = naive_holders(objects)
    own = {
        (each["metadata"]["namespace"], each["metadata"]["name"]): each["spec"]["model"]["servedNames"]
        for each in objects
        if each["kind"] == "InferenceService" and "model" in each["spec"]
    }
    with_own = {key for key, names in own.items() if any(held[name] == key for name in names)}
    aliases = {each["spec"]["aliases"][0] for each in objects if each["kind"] == "ModelRoute"}

    assert names_of(composed) == {name: key for name, key in held.items() if key in with_own}
    assert {entry.name for entry in composed.routes} == aliases - set(held)


@given(clusters(), st.randoms(use_true_random=False))
def test_the_order_in_which_objects_are_seen_changes_nothing(objects: list[Object], rng: Any) -> None:
    shuffled = list(objects)
    rng.shuffle(shuffled)

    assert compose(picture_of(shuffled)) == compose(picture_of(objects))


@given(clusters(), st.data())
def test_what_was_known_before_changes_nothing(objects: list[Object], data: st.DataObject) -> None:
    earlier = [each for each in objects if data.draw(st.integers(0, 3))]
    picture = picture_of(objects)
    before = compose(replace(picture_of(earlier), pods={**picture.pods}, owners={**picture.owners}))

    assert compose(picture, before) == compose(picture)


def test_the_model_sees_what_it_should() -> None:
    """The naive reading finds a worker in the simplest cluster: it is no reading that never finds any."""
    parts: list[Object] = [service("s", "m", namespace="a")]
    parts[0]["metadata"]["uid"] = "uid-s"
    chain: Mapping[str, str] = {"DecodePool": "x/v1", "Deployment": "apps/v1", "ReplicaSet": "apps/v1", "Pod": "v1"}
    for kind, version in chain.items():
        raw = manifest(version, kind, kind.lower(), namespace="a", owner=parts[-1])
        raw["metadata"]["uid"] = f"uid-{kind}"
        parts.append(raw)

    assert [each["kind"] for each in lineage(parts[-1], parts)] == WHOLE[1]
