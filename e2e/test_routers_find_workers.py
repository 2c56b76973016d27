"""A router outside the chart, with exactly the rights that it needs, against a real API server: no operator runs here.

Owners are made by hand, as the operator makes them; the Pods hold nothing but a pause, so what is looked at is the
catalogue that the router says it has.
"""

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.cluster.node import PAUSE_IMAGE
from e2e.support.cluster import Cluster
from e2e.support.waiting import until

pytestmark = pytest.mark.usefixtures("crds")
RULES: list[dict[str, Any]] = [
    {
        "apiGroups": ["inferplane.dev"],
        "resources": ["inferenceservices", "prefillpools", "decodepools", "loraadapters", "modelroutes"],
    },
    {"apiGroups": [""], "resources": ["pods"]},
    {"apiGroups": ["apps"], "resources": ["deployments", "replicasets", "statefulsets"]},
    {"apiGroups": ["leaderworkerset.x-k8s.io"], "resources": ["leaderworkersets"]},
]
WORKER = {"inferplane.dev/component": "worker", "inferplane.dev/revision": "r1", "inferplane.dev/pool": "s-decode"}
POD_SPEC = {
    "terminationGracePeriodSeconds": 0,
    "containers": [{"name": "agent", "image": PAUSE_IMAGE, "imagePullPolicy": "Never"}],
}


def rights(namespace: str, rules: list[dict[str, Any]]) -> str:
    """Return a service account that may list and watch, in one namespace."""
    account = {"name": "router", "namespace": namespace}
    items = [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": account,
            "rules": [{**rule, "verbs": ["list", "watch"]} for rule in rules],
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": account,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "router"},
            "subjects": [{"kind": "ServiceAccount", **account}],
        },
    ]
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items})


@dataclass(frozen=True, slots=True)
class Router:
    """A router process, seen through its metrics."""

    process: subprocess.Popen[bytes]
    folder: Path

    @classmethod
    def start(cls, folder: Path, cluster: Cluster, namespace: str) -> "Router":
        folder.mkdir()
        (folder / "kubeconfig").write_text(kubeconfig(cluster, namespace))
        discovery = {"kubernetes": {"namespace": namespace, "kubeconfig": str(folder / "kubeconfig")}}
        listen = dict.fromkeys(("http", "grpc", "metrics"), "127.0.0.1:0") | {"report": str(folder / "listen")}
        config = {"discovery": discovery, "listen": listen, "cacheDir": str(folder / "cache")}
        (folder / "router.yaml").write_text(json.dumps(config))
        command = [sys.executable, "-m", "inferplane_router", "--config", str(folder / "router.yaml")]
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(command, stderr=log, env={**os.environ, "NO_COLOR": "1"})
        router = cls(process, folder)
        until((folder / "listen").exists, 180, what="a router that listens")
        return router

    def close(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)

    def get(self, listener: str, path: str) -> str:
        address = json.loads((self.folder / "listen").read_text())[listener]
        with urllib.request.urlopen(f"http://{address}{path}", timeout=5) as answer:
            text: str = answer.read().decode()
        return text

    def metric(self, name: str, **labels: str) -> float:
        """Return the sum of a metric's samples that have these labels."""
        wanted = [f'{label}="{value}"' for label, value in labels.items()]
        lines = [
            line for line in self.get("metrics", "/metrics").splitlines() if line.startswith((f"{name}{{", f"{name} "))
        ]
        return sum(float(line.rpartition(" ")[2]) for line in lines if all(each in line for each in wanted))

    @property
    def workers(self) -> int:
        return round(self.metric("inferplane_router_workers"))

    @property
    def strangers(self) -> int:
        return round(self.metric("inferplane_router_catalogue_ignored", reason="unowned_pod"))


def kubeconfig(cluster: Cluster, namespace: str) -> str:
    """Return the administrator's, with the router's account in his place."""
    document: dict[str, Any] = yaml.safe_load(cluster.access.kubeconfig.read_text())
    token = cluster.kubectl("create", "token", "router", "--namespace", namespace, "--duration=1h").strip()
    return json.dumps({**document, "users": [{**document["users"][0], "user": {"token": token}}]})


def owned_by(owner: Mapping[str, Any], version: str, kind: str, name: str, **rest: Any) -> dict[str, Any]:
    reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "controller": True}
    reference |= {"name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}
    metadata = {"name": name, "labels": WORKER, "ownerReferences": [reference]}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **rest}


def put_chain(cluster: Cluster, namespace: str) -> None:
    """Make a service, its pool and the pool's Deployment; ReplicaSet and Pods are the cluster's doing."""
    spec = {"model": {"name": "inferplane/sim", "servedNames": [namespace]}, "engine": {"type": "sim"}}
    service = {"apiVersion": "inferplane.dev/v1alpha1", "kind": "InferenceService", "metadata": {"name": "s"}}
    cluster.apply({**service, "spec": {**spec, "mode": "aggregated"}}, namespace=namespace)
    owner = cluster.get("inferenceservices.inferplane.dev", "s", namespace=namespace)
    template = {"metadata": {"labels": WORKER}, "spec": POD_SPEC}
    pool_spec = {"service": "s", "revision": "r1", "podTemplate": template}
    pool = owned_by(owner, "inferplane.dev/v1alpha1", "DecodePool", "s-decode", spec=pool_spec)
    cluster.apply(pool, namespace=namespace)
    owner = cluster.get("decodepools.inferplane.dev", "s-decode", namespace=namespace)
    deployment_spec = {"replicas": 1, "selector": {"matchLabels": WORKER}, "template": template}
    cluster.apply(owned_by(owner, "apps/v1", "Deployment", "s-decode-r1", spec=deployment_spec), namespace=namespace)


@pytest.fixture
def router(cluster: Cluster, namespace: str, tmp_path: Path) -> Iterator[Router]:
    cluster.apply(rights(namespace, RULES), namespace=namespace)
    with closing(Router.start(tmp_path / "router", cluster, namespace)) as running:
        yield running


def test_pods_with_owners_are_found_and_a_forged_one_is_not(cluster: Cluster, namespace: str, router: Router) -> None:
    put_chain(cluster, namespace)
    until(lambda: router.workers == 1, what="one worker")

    metadata = {"name": "forged", "labels": WORKER | {"forged": "yes"}}
    cluster.apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": POD_SPEC}, namespace=namespace)

    until(lambda: router.strangers == 1, what="the forged Pod is counted")
    assert router.workers == 1

    cluster.kubectl("scale", "deployment/s-decode-r1", "--replicas=0", "--namespace", namespace)
    until(lambda: router.workers == 0, what="no worker is left")


def test_workers_are_kept_and_followed_through_a_restart_of_the_api_server(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    node = cluster.node
    cluster.apply(rights(namespace, RULES), namespace=namespace)
    put_chain(cluster, namespace)
    with (
        closing(Router.start(tmp_path / "one", cluster, namespace)) as one,
        closing(Router.start(tmp_path / "two", cluster, namespace)) as two,
    ):
        until(lambda: (one.workers, two.workers) == (1, 1), what="one worker each")
        node.stop_api_server()
        until(lambda: one.metric("inferplane_router_catalogue_failures_total") > 0, what="the outage is noticed")
        assert (one.workers, two.workers) == (1, 1)
        assert "ready" in one.get("http", "/ready")
        node.start_api_server()

        cluster.kubectl("scale", "deployment/s-decode-r1", "--replicas=3", "--namespace", namespace)
        until(lambda: (one.workers, two.workers) == (3, 3), what="three workers each")


@pytest.mark.parametrize("missing", range(3), ids=["resources", "pods", "owners"])
def test_each_right_is_needed(cluster: Cluster, namespace: str, tmp_path: Path, missing: int) -> None:
    cluster.apply(
        rights(namespace, [rule for number, rule in enumerate(RULES) if number != missing]), namespace=namespace
    )
    with closing(Router.start(tmp_path / "router", cluster, namespace)) as router:
        until(lambda: "is forbidden" in (tmp_path / "router" / "log").read_text(), what="a refusal in the log")
        with pytest.raises(urllib.error.HTTPError, match="503"):
            router.get("http", "/ready")

        cluster.apply(rights(namespace, RULES), namespace=namespace)
        until(lambda: _is_ready(router), what="a router that is ready")


def _is_ready(router: Router) -> bool:
    try:
        return "ready" in router.get("http", "/ready")
    except urllib.error.HTTPError:
        return False
