"""A source of catalogues that a test plays, and objects as a cluster with our operator has them."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from inferplane_api import workload
from inferplane_api.catalogue import Catalogue, CatalogueWorker
from inferplane_router.discovery.fake_cluster import FakeApi, FakeCluster, Object
from inferplane_router.discovery.kubernetes import ClusterCatalogue, Heard


class FakeDiscovery:
    """Applies what `publish` was given, and reports what `spoil` broke, in order."""

    def __init__(self, *, apply: Callable[[Catalogue], None], failed: Callable[[], None]) -> None:
        self._apply = apply
        self._failed = failed
        self._news: asyncio.Queue[Catalogue | None] = asyncio.Queue()

    def publish(self, catalogue: Catalogue) -> None:
        self._news.put_nowait(catalogue)

    def spoil(self) -> None:
        """Play a source that cannot be read."""
        self._news.put_nowait(None)

    async def watch(self) -> None:
        while True:
            catalogue = await self._news.get()
            if catalogue is None:
                self._failed()
            else:
                self._apply(catalogue)


def manifest(
    version: str,
    kind: str,
    name: str,
    *,
    namespace: str = "default",
    owner: Object | None = None,
    labels: Mapping[str, str] | None = None,
    **rest: Any,
) -> Object:
    """Return an object; `owner` is its controller."""
    metadata: Object = {"name": name, "namespace": namespace}
    if owner is not None:
        reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"]}
        reference |= {"name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"], "controller": True}
        metadata["ownerReferences"] = [reference]
    if labels:
        metadata["labels"] = dict(labels)
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **rest}


def service(name: str, *served_names: str, namespace: str = "default", **spec: Any) -> Object:
    """Return an InferenceService with the simulated engine."""
    model = {"name": served_names[0] if served_names else name, "servedNames": list(served_names)}
    body = {"model": model, "engine": {"type": "sim"}, **spec}
    return manifest("inferplane.dev/v1alpha1", "InferenceService", name, namespace=namespace, spec=body)


def adapter(name: str, service_name: str, *, namespace: str = "default") -> Object:
    body = {"service": service_name, "source": {"hf": "team/weights"}}
    return manifest("inferplane.dev/v1alpha1", "LoRAAdapter", name, namespace=namespace, spec=body)


def route(name: str, *targets: str, namespace: str = "default") -> Object:
    body = {"targets": [{"servedName": target} for target in targets]}
    return manifest("inferplane.dev/v1alpha1", "ModelRoute", name, namespace=namespace, spec=body)


@dataclass(frozen=True, slots=True)
class Plant:
    """Puts what an operator and Kubernetes' controllers make of a service into a fake cluster."""

    cluster: FakeCluster

    def pool(self, owner: Object, role: str = "decode") -> Object:
        kind = "DecodePool" if role == "decode" else "PrefillPool"
        return self.cluster.put(self.below(owner, "inferplane.dev/v1alpha1", kind, role, spec={"replicas": 1}))

    def replica_set(self, pool: Object, revision: str = "r1") -> Object:
        """Put a Deployment and its ReplicaSet; return the latter."""
        deployment = self.cluster.put(self.below(pool, "apps/v1", "Deployment", revision))
        return self.cluster.put(self.below(deployment, "apps/v1", "ReplicaSet", "5d9c"))

    def leader_set(self, pool: Object, revision: str = "r1") -> Object:
        """Put a LeaderWorkerSet and the StatefulSet of its leaders; return the latter."""
        version = "leaderworkerset.x-k8s.io/v1"
        leader_worker_set = self.cluster.put(self.below(pool, version, "LeaderWorkerSet", revision))
        return self.followers(leader_worker_set)

    def followers(self, owner: Object) -> Object:
        """Put a StatefulSet as LeaderWorkerSets make them."""
        raw = self.below(owner, "apps/v1", "StatefulSet", "")
        raw["metadata"]["labels"] = {"leaderworkerset.sigs.k8s.io/name": owner["metadata"]["name"]}
        return self.cluster.put(raw)

    def pod(self, owner: Object, suffix: str, ip: str = "10.0.0.1", **status: Any) -> Object:
        body = {"phase": "Running", **({"podIP": ip} if ip else {}), **status}
        return self.cluster.put(self.below(owner, "v1", "Pod", suffix, spec={}, status=body))

    def worker(self, name: str, served_name: str, ip: str = "10.0.0.1") -> Object:
        """Put a whole service with one decode worker; return its Pod."""
        pool = self.pool(self.cluster.put(service(name, served_name, mode="aggregated")))
        return self.pod(self.replica_set(pool), "a", ip)

    @staticmethod
    def below(owner: Object, version: str, kind: str, suffix: str, **rest: Any) -> Object:
        """Return an object of ours that is controlled by another, without putting it."""
        name = "-".join(filter(None, (owner["metadata"]["name"], suffix)))
        labels = {workload.LABEL_POOL: "p", workload.LABEL_REVISION: "r1"}
        if kind == "Pod":
            labels[workload.LABEL_COMPONENT] = workload.COMPONENT_WORKER
        namespace = owner["metadata"]["namespace"]
        return manifest(version, kind, name, namespace=namespace, owner=owner, labels=labels, **rest)


class Found:
    """What a router that looks at a cluster once would know."""

    def __init__(self, cluster: FakeCluster) -> None:
        self.catalogues: list[Catalogue] = []
        self.ignored: dict[str, int] = {}
        asyncio.run(self._look(cluster))
        self.catalogue = self.catalogues[-1]

    async def _look(self, cluster: FakeCluster) -> None:
        known = asyncio.Event()

        def apply(catalogue: Catalogue) -> None:
            self.catalogues.append(catalogue)
            known.set()

        heard = Heard(apply, lambda: None, self.ignored.update)
        watching = asyncio.create_task(ClusterCatalogue(FakeApi(cluster), heard, rng=Random(1)).watch(), name="watch")  # noqa: S311 - a test's
        await known.wait()
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)

    @property
    def workers(self) -> dict[str, CatalogueWorker]:
        return {worker.worker_id: worker for worker in self.catalogue.workers}
