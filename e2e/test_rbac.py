"""Every rule of the operator's role is needed, and nothing is in it that is not used.

The operator runs as a process of the test, as a ServiceAccount whose Role is the chart's, less some rules; the audit
log of the API server tells what it was refused.  A scenario of edits makes it use everything that it may.
Rules are taken away together where the lack of one does not hide that of another: all that let it read, as it reads
everything at once; those that let it write alone, each for an edit of its own.  Without a Lease it never leads, and
what it does not get to say in a status it does not say in an Event: these are taken away one by one.
"""

import copy
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster.audit import AuditLog, Request
from e2e.cluster.binaries import path_of
from e2e.cluster.places import REPOSITORY
from e2e.support.cluster import Cluster
from e2e.support.release import Release
from e2e.support.rest import no_operator
from e2e.support.services import sim_service
from e2e.support.waiting import until
from helm_chart import Helm, Manifest

pytestmark = [pytest.mark.timeout(600, func_only=True), pytest.mark.usefixtures("nobody_else", "leader_worker_sets")]
ACCOUNT = "inferplane-operator"
_LIMIT_S = 120.0
CLASSES = {"classes": {"narrow": {"vendor": "none", "resource": "example.com/device", "devicesPerNode": 1}}}
LEADER_WORKER_SETS: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {
        "name": "leaderworkersets.leaderworkerset.x-k8s.io",
        "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"},
    },
    "spec": {
        "group": "leaderworkerset.x-k8s.io",
        "scope": "Namespaced",
        "names": {
            "kind": "LeaderWorkerSet",
            "listKind": "LeaderWorkerSetList",
            "plural": "leaderworkersets",
            "singular": "leaderworkerset",
        },
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}


def render_roles(namespace: str) -> list[Manifest]:
    """Return what the chart gives an operator that watches and lives in one namespace: account, roles, bindings."""
    kinds = {"ServiceAccount", "Role", "RoleBinding"}
    manifests = Helm(path_of("helm")).render({"watchNamespace": namespace}, namespace=namespace)
    return [
        each
        for each in manifests
        if each["kind"] in kinds and "gateway" not in each["metadata"]["name"] and "helm.sh/hook" not in str(each)
    ]


def name_of(rule: Manifest) -> str:
    return ",".join(rule["resources"][:2]) + ":" + ",".join(rule["verbs"])


READING = "what is read"
WRITING = "what is written alone"
ALONE = ("leases:create", "leases:get,update", "inferenceservices/status,prefillpools/status:patch")


def group_of(rule: Manifest) -> str:
    """Say with which others a rule is taken away."""
    if (name := name_of(rule)) in ALONE:
        return name
    return READING if "list" in rule["verbs"] else WRITING


def rules(manifests: list[Manifest]) -> Iterator[tuple[list[Manifest], Manifest]]:
    """Yield each rule and the list that it is in."""
    for role in manifests:
        if role["kind"] == "Role":
            for rule in role["rules"]:
                yield role["rules"], rule


@pytest.fixture(scope="module")
def nobody_else(release: Release) -> Iterator[None]:
    """Let the installed operator rest: what it has done is not asked for again."""
    with no_operator(release):
        yield


@pytest.fixture(scope="module")
def leader_worker_sets(cluster: Cluster) -> Iterator[None]:
    """Let the cluster have an API for workers that span nodes; nothing carries it out."""
    cluster.apply(LEADER_WORKER_SETS)
    name = str(LEADER_WORKER_SETS["metadata"]["name"])
    cluster.kubectl("wait", "--for=condition=Established", f"crd/{name}", "--timeout=30s")
    yield
    cluster.kubectl("delete", "crd", name)


@dataclass(slots=True)
class Operator:
    """A running operator, as the API server sees it."""

    cluster: Cluster
    namespace: str
    log: AuditLog
    output: Path

    @property
    def user(self) -> str:
        return f"system:serviceaccount:{self.namespace}:{ACCOUNT}"

    def requests(self) -> list[Request]:
        return [request for request in self.log.requests() if request.user == self.user]

    def refused(self) -> list[Request]:
        return [request for request in self.requests() if request.code == HTTPStatus.FORBIDDEN]

    def refused_resources(self) -> set[str]:
        return {resource for request in self.refused() for resource, _ in asked_for(request)}


@contextmanager
def running(cluster: Cluster, namespace: str, manifests: list[Manifest], folder: Path) -> Generator[Operator]:
    """Run an operator with these roles and no others until the context is left."""
    cluster.apply({"apiVersion": "v1", "kind": "List", "items": manifests}, namespace=namespace)
    operator = Operator(cluster, namespace, AuditLog.since_now(cluster.node.audit_log), folder / "operator.log")
    (folder / "classes.json").write_text(json.dumps(CLASSES))
    with operator.output.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "inferplane_operator", *_flags(cluster, namespace, folder)],
            cwd=REPOSITORY,
            env=cluster.access.environment,
            stdout=output,
            stderr=output,
        )
    try:
        yield operator
    finally:
        os.kill(process.pid, signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()


def _flags(cluster: Cluster, namespace: str, folder: Path) -> list[str]:
    return [
        f"--kubeconfig={kubeconfig(cluster, namespace, folder)}",
        f"--namespaces={namespace}",
        f"--lease-namespace={namespace}",
        f"--lease-name={ACCOUNT}",
        f"--accelerator-classes={folder / 'classes.json'}",
        "--listen-health=127.0.0.1:0",
        "--listen-metrics=127.0.0.1:0",
        "--gateway-url=http://nowhere",
    ]


def kubeconfig(cluster: Cluster, namespace: str, folder: Path) -> Path:
    """Write a kubeconfig with a token of the ServiceAccount."""
    config: dict[str, Any] = json.loads(cluster.kubectl("config", "view", "--raw", "--output=json"))
    token = cluster.kubectl("create", "token", ACCOUNT, "-n", namespace, "--duration=1h").strip()
    for user in config["users"]:
        user["user"] = {"token": token}
    path = folder / "kubeconfig"
    path.write_text(json.dumps(config))  # which is YAML
    return path


@dataclass(frozen=True, slots=True)
class Scene:
    """What there is of a namespace, for the scenario's steps to look at."""

    cluster: Cluster
    namespace: str

    def names(self, kind: str) -> list[str]:
        return [each["metadata"]["name"] for each in self.cluster.get(kind, namespace=self.namespace)["items"]]

    def object(self, kind: str, name: str) -> dict[str, Any]:
        found = self.cluster.get(kind, namespace=self.namespace)["items"]
        return next((each for each in found if each["metadata"]["name"] == name), dict[str, Any]())

    def revisions(self, kind: str, pool: str) -> set[str]:
        """Return the revisions of a pool, or of what it is made of."""
        found = self.cluster.get(kind, namespace=self.namespace)["items"]
        mine = [each for each in found if each["metadata"]["name"].startswith(pool)]
        return {each["spec"].get("revision") or each["metadata"]["labels"]["inferplane.dev/revision"] for each in mine}

    def follows(self, kind: str, pool: str) -> bool:
        """Whether what a pool is made of has its revision, and nothing of another is left."""
        return self.revisions(kind, pool) == self.revisions("decodepools", pool)

    def observed(self, kind: str, name: str) -> bool:
        """Whether a status speaks of the present generation."""
        found = self.object(kind, name)
        return bool(found) and found.get("status", {}).get("observedGeneration") == found["metadata"]["generation"]


def service(name: str, *, prefill: int = 0, decode: int = 0, **spec: Any) -> Manifest:
    """Return a service of simulated engines whose pools may be empty."""
    made = copy.deepcopy(sim_service(name, prefill=1, **spec))
    for role, replicas in (("prefill", prefill), ("decode", decode)):
        made["spec"][role] |= {"replicas": replicas, "minReplicas": 0}
    return made


def aggregated(name: str, **spec: Any) -> Manifest:
    made = service(name, **spec)
    del made["spec"]["prefill"]
    return made | {"spec": made["spec"] | {"mode": "aggregated"}}


def on_devices(name: str, **pool: Any) -> Manifest:
    """Return a service with a real engine on devices that no node has; it has no workers."""
    made = aggregated(name)
    made["spec"]["engine"] = {"type": "vllm", "device": "cuda"}
    made["spec"]["model"] = {"name": name, "source": {"path": "/models/none"}, "servedNames": [name]}
    made["spec"]["decode"] = {"replicas": 0, "minReplicas": 0, **pool}
    return made


def ours(kind: str, name: str, spec: Manifest) -> Manifest:
    return {"apiVersion": "inferplane.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}


@dataclass(frozen=True, slots=True)
class Step:
    """An edit, what shows that it was carried out, and the resources of which one refused shows that it cannot be."""

    manifest: Manifest
    done: Callable[[Scene], bool]
    unless: frozenset[str] = frozenset()


def steps() -> Iterator[Step]:
    services = "inferenceservices.inferplane.dev"
    yield Step(service("main"), lambda scene: len(scene.names("deployments")) == 2)
    claims = {"claims": [{"name": "device", "deviceClassName": "example.com"}]}
    templates, scales = "resourceclaimtemplates", frozenset({"prefillpools/scale", "decodepools/scale"})
    yield Step(
        on_devices("claim", resources=claims), lambda scene: bool(scene.names(templates)), frozenset({templates})
    )
    more = service("main", prefill=1, decode=2)
    yield Step(more, lambda scene: len(scene.names("pods")) == 3, scales)
    fewer = service("main", prefill=1, decode=1)
    yield Step(fewer, lambda scene: len(scene.names("pods")) == 2, scales)
    yield Step(service("main"), lambda scene: scene.names("pods") == [], scales)
    yield Step(aggregated("main"), lambda scene: scene.names("prefillpools") == [], frozenset({"prefillpools"}))
    for slots in (1, 2, 3, 4, 5, 6, 5):  # more than are remembered, and then the last but one again
        engine = {**sim_service("main")["spec"]["engine"], "maxNumSeqs": 64 + slots}
        yield Step(aggregated("main", engine=engine), lambda scene: scene.observed(services, "main"))
    store = {"tiers": [{"name": "memory", "medium": "dram", "capacity": "1Gi"}]}
    yield Step(ours("KVStore", "store", store), lambda scene: scene.observed("kvstores", "store"))
    route = {"aliases": ["alias"], "targets": [{"servedName": "main"}]}
    yield Step(ours("ModelRoute", "route", route), lambda scene: scene.observed("modelroutes", "route"))
    adapter = {"service": "main", "rank": 8, "source": {"path": "/adapters/none"}}
    yield Step(ours("LoRAAdapter", "adapter", adapter), lambda scene: scene.observed("loraadapters", "adapter"))
    wide = on_devices("wide", accelerator="narrow", parallelism={"tensor": 2})
    yield Step(wide, lambda scene: len(scene.names("leaderworkersets")) == 1)
    wider = on_devices("wide", accelerator="narrow", parallelism={"tensor": 4})
    first, sets = "wide-decode", "leaderworkersets"
    yield Step(wider, lambda scene: scene.observed(services, "wide") and scene.follows(sets, first))


def play(operator: Operator, enough: Callable[[], bool] = lambda: False) -> None:
    """Make every edit, each when the one before has been carried out or refused, or until there is enough to see."""
    scene = Scene(operator.cluster, operator.namespace)

    def passed(step: Step) -> bool:
        return step.done(scene) or bool(step.unless & operator.refused_resources()) or enough()

    for step in steps():
        if enough():
            return
        operator.cluster.apply(step.manifest, namespace=operator.namespace)
        what = f"{step.manifest['kind']} {step.manifest['metadata']['name']} carried out"
        until(partial(passed, step), _LIMIT_S, what=what)


def asked_for(request: Request) -> set[tuple[str, str]]:
    """Return what a request has to be allowed to do: a server-side apply is a patch, and at first a creation too."""
    resource = f"{request.resource}/{request.subresource}" if request.subresource else request.resource
    verbs = {request.verb} | ({"create"} if request.code == HTTPStatus.CREATED else set[str]())
    return {(resource, verb) for verb in verbs}


def allowed(manifests: list[Manifest]) -> set[tuple[str, str]]:
    return {
        (resource, verb) for _, rule in rules(manifests) for resource in rule["resources"] for verb in rule["verbs"]
    }


def test_what_is_allowed_is_what_is_used(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    manifests = render_roles(namespace)
    with running(cluster, namespace, manifests, tmp_path) as operator:
        play(operator)
        used = set[tuple[str, str]]().union(*map(asked_for, operator.requests()))
        refused = operator.refused()

    assert refused == []
    assert allowed(manifests) - used == set()


@pytest.mark.parametrize("group", [READING, WRITING, *ALONE])
def test_without_a_rule_the_operator_is_refused(cluster: Cluster, namespace: str, tmp_path: Path, group: str) -> None:
    manifests = render_roles(namespace)
    missing = [(held, rule) for held, rule in rules(manifests) if group_of(rule) == group]
    for held, rule in missing:
        held.remove(rule)
    with running(cluster, namespace, manifests, tmp_path) as operator:

        def unseen() -> list[str]:
            refused = operator.refused_resources()
            return [name_of(rule) for _, rule in missing if not refused & set(rule["resources"])]

        play(operator, enough=lambda: not unseen())
        until(lambda: not unseen(), _LIMIT_S, what="a refusal for each rule")

    assert missing
