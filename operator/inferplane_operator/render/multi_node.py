"""Workers that are spread over several nodes: a LeaderWorkerSet in a Deployment's place.

Problem: an engine whose devices do not fit on one node is several programs that start, fail and end together, of which
one serves.  Idea: the leader's Pod is the worker, with its agent, probes and drain; the Pods of the other nodes are
made from the same template, so that a user's own template reaches them as well: the engine alone, with its rank.
Trade-off: arguments are recognised by name, as the launch wrote them.
Invariant: a Pod of the other nodes has no agent and another component label, so nobody takes it for a worker.
"""

import copy
from collections.abc import Mapping
from typing import Any, Final, cast

from inferplane_engine.launch.group import follower_arguments
from inferplane_operator.render import names
from inferplane_operator.render.values import Manifest

NODES_ANNOTATION: Final = "inferplane.dev/nodes"
"""On a Pod template: how many nodes one worker is spread over."""
LEADER_ADDRESS: Final = "LWS_LEADER_ADDRESS"
"""Of the node that serves, and a node's own number: variables that LeaderWorkerSet sets in every container."""
NODE_INDEX: Final = "LWS_WORKER_INDEX"
COMPONENT: Final = "worker-node"
API_VERSION: Final = "leaderworkerset.x-k8s.io/v1"
KIND: Final = "LeaderWorkerSet"
_SERVES_ONLY: Final = ("startupProbe", "readinessProbe", "livenessProbe", "lifecycle", "ports")


def nodes_of(template: Mapping[str, Any]) -> int:
    """Return how many nodes a worker of this Pod template is spread over."""
    metadata: Mapping[str, Any] = template.get("metadata") or {}
    annotations: Mapping[str, str] = metadata.get("annotations") or {}
    return int(annotations.get(NODES_ANNOTATION, "1"))


def leader_worker_template(template: Mapping[str, Any]) -> Manifest:
    """Return `spec.leaderWorkerTemplate`: a group starts anew as a whole, since its engine does."""
    leader = copy.deepcopy(dict(template))
    return {
        "size": nodes_of(template),
        "restartPolicy": "RecreateGroupOnPodRestart",
        "leaderTemplate": leader,
        "workerTemplate": follower_template(template),
    }


def follower_template(template: Mapping[str, Any]) -> Manifest:
    """Make the Pod template of the other nodes from the leader's."""
    found: Manifest = copy.deepcopy(dict(template))
    metadata: Manifest = found["metadata"]
    metadata["labels"] = {**metadata["labels"], names.LABEL_COMPONENT: COMPONENT}
    body: Manifest = found["spec"]
    inits: list[Manifest] = body.get("initContainers", [])
    body["initContainers"] = [container for container in inits if container["name"] != names.AGENT_CONTAINER]
    body["containers"] = [_follower(container) for container in cast("list[Manifest]", body["containers"])]
    return found


def _follower(container: Manifest) -> Manifest:
    if container["name"] != names.ENGINE_CONTAINER:
        return container
    kept = {key: value for key, value in container.items() if key not in _SERVES_ONLY}
    return {**kept, "args": follower_arguments(container["args"], names.ref(NODE_INDEX))}


def leader_worker_set(
    *, name: str, namespace: str, replicas: int, labels: Mapping[str, str], template: Mapping[str, Any]
) -> Manifest:
    """Make the object; whoever applies it adds the owner.

    It is never rolled: each revision has an object of its own.
    """
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": name, "namespace": namespace, "labels": dict(labels)},
        "spec": {
            "replicas": replicas,
            "startupPolicy": "LeaderCreated",
            "leaderWorkerTemplate": leader_worker_template(template),
        },
    }
