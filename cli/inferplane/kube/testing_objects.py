"""Objects of a cluster in which the service `chat` runs, as an API server would serve them."""

from collections.abc import Mapping
from typing import Any

from inferplane.kube.testing import FakeCluster

NOW = 1_800_000_000.0
"""2027-01-15T08:00:00Z"""
A_DAY_AGO = "2027-01-14T08:00:00Z"
A_MINUTE_AGO = "2027-01-15T07:59:00Z"
STARTED = {"startedAt": "2027-01-15T07:59:04Z"}
API_VERSION = "inferplane.dev/v1alpha1"


def make_service(name: str = "chat", namespace: str = "default", **status: Any) -> dict[str, Any]:
    conditions = [
        {"type": "Ready", "status": "True", "reason": "AllWorkersReady", "lastTransitionTime": A_MINUTE_AGO},
        {"type": "SLOMet", "status": "Unknown", "reason": "NoTraffic", "lastTransitionTime": A_MINUTE_AGO},
    ]
    spec = {
        "model": {"name": "meta/m", "servedNames": ["m"], "revision": "main"},
        "engine": {"type": "sim", "args": ["--seed=2"], "env": {"TOKEN": "hush"}},
        "slo": {"ttft": "800ms", "tpot": "25ms"},
        "mode": "disaggregated",
        "prefill": {"replicas": 1, "maxReplicas": 4},
        "decode": {"replicas": 2, "maxReplicas": 8},
    }
    return {
        "apiVersion": API_VERSION,
        "kind": "InferenceService",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{namespace}-{name}",
            "generation": 3,
            "resourceVersion": "41",
            "creationTimestamp": A_DAY_AGO,
            "managedFields": [{"manager": "kubectl"}],
        },
        "spec": spec,
        "status": {
            "observedGeneration": 3,
            "conditions": conditions,
            "columns": {"workers": "3/3", "ratio": "1:2", "ttft": "310ms/800ms", "tpot": "22ms/25ms"},
            "url": "http://gw:8000",
            "servedNames": ["m"],
            "revision": "bbb",
            "stableRevision": "bbb",
            **status,
        },
    }


def make_pool(role: str = "decode", *, replicas: int = 2, ready: int = 2, service: str = "chat") -> dict[str, Any]:
    return {
        "apiVersion": API_VERSION,
        "kind": "DecodePool" if role == "decode" else "PrefillPool",
        "metadata": {
            "name": f"{service}-{role}",
            "namespace": "default",
            "uid": f"uid-{service}-{role}",
            "generation": 1,
            "ownerReferences": [owner("InferenceService", f"uid-default-{service}")],
        },
        "spec": {
            "service": service,
            "replicas": replicas,
            "minReplicas": 1,
            "maxReplicas": 8,
            "revision": "bbb",
            "podTemplate": {},
        },
        "status": {
            "observedGeneration": 1,
            "replicas": replicas,
            "readyReplicas": ready,
            "updatedReplicas": replicas,
            "revisions": [{"revision": "bbb", "replicas": replicas, "readyReplicas": ready}],
            "scaledBy": "kubectl",
        },
    }


def owner(kind: str, uid: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "name": uid, "uid": uid, "controller": True}


def make_owned(kind: str, name: str, owner_kind: str, owner_uid: str, **fields: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "labels": {"inferplane.dev/service": "chat"},
            "ownerReferences": [owner(owner_kind, owner_uid)],
            "creationTimestamp": A_MINUTE_AGO,
        },
        **fields,
    }


def make_pod(name: str = "chat-decode-bbb-x1", *, ready: bool = True, **status: Any) -> dict[str, Any]:
    state = "True" if ready else "False"
    pod = make_owned("Pod", name, "ReplicaSet", "uid-chat-decode-bbb-rs")
    pod["apiVersion"] = "v1"
    pod["metadata"]["labels"] |= {"inferplane.dev/revision": "bbb", "inferplane.dev/role": "decode"}
    containers = [{"name": "engine", "env": [{"name": "HF_TOKEN", "value": "hush"}], "args": ["--api-key", "hush"]}]
    return {
        **pod,
        "spec": {"nodeName": "n1", "initContainers": [{"name": "agent"}], "containers": containers},
        "status": {
            "phase": "Running",
            "conditions": [
                {"type": "PodScheduled", "status": "True", "lastTransitionTime": A_MINUTE_AGO},
                {"type": "Initialized", "status": "True", "lastTransitionTime": "2027-01-15T07:59:03Z"},
                {"type": "Ready", "status": state, "lastTransitionTime": "2027-01-15T07:59:12Z"},
            ],
            "containerStatuses": [{"name": "engine", "ready": ready, "restartCount": 1, "state": {"running": STARTED}}],
            **status,
        },
    }


def make_revision(name: str, number: int, spec: Mapping[str, Any], model_revision: str = "") -> dict[str, Any]:
    data = {"spec": dict(spec), "modelRevision": model_revision}
    found = make_owned("ControllerRevision", f"chat-{name}", "InferenceService", "uid-default-chat", data=data)
    found["metadata"]["labels"]["inferplane.dev/revision"] = name
    return {**found, "revision": number}


def make_event(about: Mapping[str, Any], reason: str, message: str, last: str = A_MINUTE_AGO) -> dict[str, Any]:
    metadata = about["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{metadata['name']}.{reason.lower()}", "namespace": "default"},
        "involvedObject": {"kind": about["kind"], "name": metadata["name"], "uid": metadata["uid"]},
        "type": "Warning",
        "reason": reason,
        "message": message,
        "lastTimestamp": last,
    }


def make_component(role: str, ready: int = 1) -> dict[str, Any]:
    """Make the Deployment of a component of the release."""
    labels = {"inferplane.dev/component": role, "app.kubernetes.io/part-of": "inferplane"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": f"inferplane-{role}", "namespace": "system", "labels": labels},
        "spec": {"replicas": 2},
        "status": {"readyReplicas": ready},
    }


def chat_cluster() -> FakeCluster:
    """Make a cluster with the service `chat`, its pools, and one Pod of each."""
    pod = make_pod()
    foreign = make_pod("foreign")
    foreign["metadata"]["ownerReferences"] = []
    spec = make_service()["spec"]
    old = {**spec, "engine": {"type": "sim", "args": ["--seed=1"]}, "decode": {"replicas": 5, "maxReplicas": 5}}
    return (
        FakeCluster()
        .add("inferenceservices", make_service())
        .add("prefillpools", make_pool("prefill", replicas=1, ready=1))
        .add("decodepools", make_pool())
        .add("deployments", make_owned("Deployment", "chat-decode-bbb", "DecodePool", "uid-chat-decode"))
        .add("replicasets", make_owned("ReplicaSet", "chat-decode-bbb-rs", "Deployment", "uid-chat-decode-bbb"))
        .add("pods", pod, foreign)
        .add("controllerrevisions", make_revision("aaa", 1, old, "c0ffee"), make_revision("bbb", 2, spec, "facade"))
        .add("events", make_event(pod, "BackOff", "restarting\nagain"), make_event(foreign, "Lost", "not ours"))
    )
