"""What a router pays for a cluster of a thousand Pods: memory that is kept, and time until a change is a catalogue.

    python bench/bench_discovery.py [PODS]

Objects are as large as real ones (managed fields, a whole Pod spec).  Times are the best of several, in milliseconds,
and stand beside the time that decoding one such Pod takes, which is the unit that carries over to other machines.
"""

import sys
import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import orjson

from inferplane_router.discovery import reading
from inferplane_router.discovery.composing import Composed, compose
from inferplane_router.discovery.fake_cluster import FakeCluster
from inferplane_router.discovery.records import Picture
from inferplane_router.discovery.testing import Plant, service

PADDING: dict[str, Any] = {f"f:field{number}": {"f:a": {}, "f:b": {}, "k:value": "x" * 20} for number in range(120)}
OWNERS = ("PrefillPool", "DecodePool", "Deployment", "ReplicaSet", "StatefulSet", "LeaderWorkerSet")


def main(pods: int = 1000) -> None:
    lines = _lines(pods)
    tracemalloc.start()
    picture = _read(lines)
    kept = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    pod_line = next(line for line in lines if orjson.loads(line)["kind"] == "Pod")
    decode_ms = _best_ms(partial(orjson.loads, pod_line))
    compose_ms = _best_ms(partial(compose, picture))
    change_ms = _best_ms(partial(_change, picture, compose(picture), pod_line))
    sent = sum(map(len, lines))
    print(f"{pods} Pods, {len(lines)} objects: {sent / 1e6:.1f} MB on the wire whole, {kept / 1e6:.2f} MB kept")
    print(f"a catalogue of {len(compose(picture).workers)} workers: {compose_ms:.2f} ms")
    print(
        f"one Pod's event read and the catalogue anew: {change_ms:.2f} ms, {change_ms / decode_ms:.0f} decodings of it"
    )


def _lines(pods: int) -> list[bytes]:
    cluster = FakeCluster()
    plant = Plant(cluster)
    for number in range(max(1, pods // 50)):
        owner = plant.replica_set(plant.pool(cluster.put(service(f"s{number}", f"m{number}", mode="aggregated"))))
        for index in range(50):
            plant.pod(owner, str(index), f"10.0.{number}.{index}")
    kinds = ("InferenceService", *OWNERS, "Pod")
    return [orjson.dumps(_padded(raw)) for kind in kinds for raw in cluster.objects(kind)]


def _padded(raw: dict[str, Any]) -> dict[str, Any]:
    return {**raw, "metadata": {**raw["metadata"], "managedFields": [{"fieldsV1": PADDING}]}}


def _read(lines: list[bytes]) -> Picture:
    picture = Picture(owners={kind: {} for kind in OWNERS})
    for line in lines:
        raw = orjson.loads(line)
        uid, kind = reading.uid_of(raw), raw["kind"]
        if kind == "InferenceService":
            _dict(picture.services)[uid] = reading.read_service(raw, None)
        elif kind == "Pod":
            _dict(picture.pods)[uid] = reading.read_pod(raw)
        else:
            _dict(picture.owners[kind])[uid] = reading.read_owned(kind, raw)
    return picture


def _dict(mapping: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", mapping)


def _change(picture: Picture, before: Composed, line: bytes) -> None:
    raw = orjson.loads(line)
    raw["status"]["podIP"] = "10.9.9.9"
    pods = {**picture.pods, reading.uid_of(raw): reading.read_pod(raw)}
    compose(Picture(picture.services, picture.adapters, picture.routes, picture.owners, pods), before)


def _best_ms(act: Callable[[], object], rounds: int = 30) -> float:
    best = float("inf")
    for _ in range(rounds):
        begun = time.perf_counter()
        act()
        best = min(best, time.perf_counter() - begun)
    return best * 1000


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
