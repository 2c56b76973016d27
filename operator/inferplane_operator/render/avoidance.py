"""A second workload of a revision, for workers that shall stay away from some nodes.

A Pod's nodes can only be told when it is made, and another template in the same Deployment would restart the good
workers too.  So the missing ones get a Deployment of their own: the same template, the same revision, an affinity more.
"""

import copy
from collections.abc import Mapping, Sequence
from typing import Any, Final

from inferplane_operator.render.objects import workload
from inferplane_operator.render.values import Manifest

ASIDE: Final = "inferplane.dev/aside"
"""Label of such a workload and of its Pods."""
_SUFFIX: Final = "-x"


def aside_workload(
    pool: Mapping[str, Any], *, revision: str, template: Mapping[str, Any], replicas: int, nodes: Sequence[str]
) -> Manifest:
    """Make the workload; `nodes` are added to what the template avoids, none if it is one that is there already."""
    made = workload(pool, revision=revision, template=_marked(template, nodes), replicas=replicas)
    metadata = made["metadata"]
    metadata["name"] += _SUFFIX
    metadata["labels"] = {**metadata["labels"], ASIDE: "true"}
    if "selector" in made["spec"]:
        made["spec"]["selector"]["matchLabels"][ASIDE] = "true"
    return made


def _marked(template: Mapping[str, Any], nodes: Sequence[str]) -> Manifest:
    found: Manifest = copy.deepcopy(dict(template))
    metadata: Manifest = found.setdefault("metadata", {})
    metadata["labels"] = {**metadata.get("labels", {}), ASIDE: "true"}
    if not nodes:
        return found
    affinity: Manifest = found["spec"].setdefault("affinity", {}).setdefault("nodeAffinity", {})
    required: Manifest = affinity.setdefault("requiredDuringSchedulingIgnoredDuringExecution", {})
    # Terms are alternatives, so each of them has to exclude the nodes; a field takes one value at a time.
    terms: list[Manifest] = required.setdefault("nodeSelectorTerms", []) or [{}]
    fields = [{"key": "metadata.name", "operator": "NotIn", "values": [node]} for node in nodes]
    required["nodeSelectorTerms"] = [{**term, "matchFields": [*term.get("matchFields", ()), *fields]} for term in terms]
    return found
