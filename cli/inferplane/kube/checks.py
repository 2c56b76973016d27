"""What a cluster lacks, from facts already gathered: pure, one line for each thing looked at.

`lacking` stands in the way of serving; `optional` is only needed by who uses it.  Both say what to do.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Final

from inferplane.cluster import Object
from inferplane.kube.ages import duration, seconds
from inferplane.kube.facts import ClusterFacts, component
from inferplane.kube.fields import annotation, condition, name_of, namespace_of, number, part, text
from inferplane.kube.schemas import missing_fields
from inferplane_api.schema.definitions import NAMES, custom_resource_definition
from inferplane_api.v1alpha1.metadata import GROUP

CHART: Final = "install the chart: `helm install inferplane helm/inferplane`"
_OLDEST: Final = (1, 30)
"""What the chart asks for: native sidecars, and admission policies that guard a KVStore in use."""
_IMAGE_VOLUMES: Final = ((1, 33), (1, 35))
"""Known from, and without a feature gate from."""
_SKEW_S: Final = 5.0
_SILENT_S: Final = 60.0
"""Kubelets renew their Lease every ten seconds."""
_DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
_FOREIGN: Final = "inferenceservices.serving.kserve.io"
_DEVICE: Final = re.compile(
    r"(nvidia\.com/(gpu|mig-.*)|amd\.com/gpu|gpu\.intel\.com/(i915|xe)|habana\.ai/gaudi|huawei\.com/Ascend.*|google\.com/tpu)"
)


class Level(StrEnum):
    OK = "ok"
    LACKING = "lacking"
    OPTIONAL = "optional"


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    level: Level
    detail: str
    fix: str = ""


def check(facts: ClusterFacts) -> list[Check]:
    return [
        _version(facts.version),
        *_definitions(facts),
        *component_checks(facts.components),
        _policy(facts),
        *_rights(facts),
        *_accelerators(facts.nodes),
        _storage(facts.storage_classes),
        *_optional_groups(facts),
        _image_volumes(facts.version),
        *_clocks(facts),
    ]


def _ok(name: str, detail: str) -> Check:
    return Check(name, Level.OK, detail)


def _unknown(name: str, what: str) -> Check:
    return Check(name, Level.OPTIONAL, f"{what} may not be read here", "ask somebody who may, with the same command")


def release(version: str) -> tuple[int, int]:
    found = re.match(r"v?(\d+)\.(\d+)", version)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _version(version: str) -> Check:
    if release(version) >= _OLDEST:
        return _ok("kubernetes", version)
    oldest = ".".join(map(str, _OLDEST))
    return Check("kubernetes", Level.LACKING, f"the chart does not take {version}", f"upgrade to {oldest} or newer")


def _definitions(facts: ClusterFacts) -> Iterator[Check]:
    if facts.definitions is None:
        if f"{GROUP}/v1alpha1" in facts.groups:
            yield _ok("resources", f"{GROUP}/v1alpha1 is served")
        else:
            yield Check("resources", Level.LACKING, f"{GROUP} is not served", CHART)
        return
    found = {name_of(it): it for it in facts.definitions}
    for kind, names in NAMES.items():
        yield _definition(kind, found.get(f"{names.plural}.{GROUP}"))
    if _FOREIGN in found:
        detail = "KServe has a kind of the same name: `kubectl get inferenceservices` may mean either"
        yield _ok("kserve", f"{detail}; write inferenceservices.{GROUP}, or infsvc")


def _definition(kind: str, found: Object | None) -> Check:
    name = f"resource {kind}"
    if found is None:
        return Check(name, Level.LACKING, "is not defined", CHART)
    if condition(found, "Established")["status"] != "True":
        return Check(name, Level.LACKING, "is not established", f"see `kubectl describe crd {name_of(found)}`")
    ours = _ours(kind)
    theirs = next((it for it in found["spec"]["versions"] if it["name"] == ours["name"]), None)
    if theirs is None:
        return Check(name, Level.LACKING, f"has no version {ours['name']}", "upgrade the chart")
    missing = missing_fields(ours["schema"]["openAPIV3Schema"], theirs["schema"]["openAPIV3Schema"])
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        return Check(
            name, Level.LACKING, f"is older than this program: it lacks {missing[0]}{more}", "upgrade the chart"
        )
    return _ok(name, f"{ours['name']}, with every field that this program knows")


@cache
def _ours(kind: str) -> Object:
    """Return the version of a kind that this program was made for."""
    version: Object = custom_resource_definition(kind)["spec"]["versions"][0]
    return version


def component_checks(components: Sequence[Object] | None) -> Iterator[Check]:
    """Say whether operator and gateway are there and ready, and the planner where there is one."""
    if components is None:
        yield _unknown("operator and gateway", "Deployments")
        return
    for role in ("operator", "gateway"):
        yield _component(role, [it for it in components if component(it) == role])
    if planners := [it for it in components if component(it) == "planner"]:
        yield _component("planner", planners)


def _component(role: str, found: Sequence[Object]) -> Check:
    if not found:
        return Check(role, Level.LACKING, "is not installed", CHART)
    ready = sum(number(it, "status", "readyReplicas") for it in found)
    wanted = sum(number(it, "spec", "replicas", default=1) for it in found)
    namespace, name = namespace_of(found[0]), name_of(found[0])
    where = f"{namespace}/{name}"
    if ready:
        return _ok(role, f"{ready} of {wanted} ready ({where})")
    fix = f"see `kubectl -n {namespace} describe deployment {name}`"
    return Check(role, Level.LACKING, f"0 of {wanted} ready ({where})", fix)


def _policy(facts: ClusterFacts) -> Check:
    name = "admission policy"
    if "admissionregistration.k8s.io/v1" not in facts.groups or release(facts.version) < (1, 30):
        return Check(
            name, Level.OPTIONAL, "this Kubernetes has none: a KVStore in use may be deleted", "upgrade to 1.30"
        )
    if facts.policies is None:
        return _unknown(name, "admission policies")
    if not facts.policies:
        return Check(name, Level.OPTIONAL, "is not installed: a KVStore in use may be deleted", "upgrade the chart")
    return _ok(name, ", ".join(name_of(it) for it in facts.policies))


def _rights(facts: ClusterFacts) -> Iterator[Check]:
    missing = [right for right, allowed in facts.rights.items() if not allowed]
    where = f"in namespace {facts.namespace}"
    if not missing:
        yield _ok("your rights", f"enough for every command {where}")
    for right in missing:
        fix = f"ask for a Role {where} that allows it"
        yield Check("your rights", Level.LACKING, f"you may not {right} {where}", fix)


def devices(node: Object) -> dict[str, int]:
    """Return the accelerators that a node gives to Pods, by resource."""
    allocatable = part(node, "status", "allocatable")
    counts = {name: str(count) for name, count in allocatable.items() if _DEVICE.fullmatch(name)}
    return {name: int(count) for name, count in counts.items() if count.isdecimal() and int(count) > 0}


def _accelerators(nodes: Sequence[Object] | None) -> Iterator[Check]:
    if nodes is None:
        yield _unknown("accelerators", "nodes")
        return
    total: dict[str, int] = {}
    for node in nodes:
        for name, count in devices(node).items():
            total[name] = total.get(name, 0) + count
    for name, count in sorted(total.items()):
        yield _ok("accelerators", f"{count} {name} on {sum(name in devices(node) for node in nodes)} nodes")
    if not total:
        detail = f"none of {len(nodes)} nodes has any: engines run on CPUs only, or simulated"
        yield Check(
            "accelerators", Level.OPTIONAL, detail, "install the vendor's device plugin on nodes that have some"
        )


def _storage(classes: Sequence[Object] | None) -> Check:
    name = "default StorageClass"
    if classes is None:
        return _unknown(name, "storage classes")
    for it in classes:
        if annotation(it, _DEFAULT_CLASS) == "true":
            return _ok(name, name_of(it))
    fix = f"annotate one with {_DEFAULT_CLASS}=true, or name a class in each claim"
    return Check(name, Level.OPTIONAL, "there is none: claims without a class stay unbound", fix)


@dataclass(frozen=True, slots=True)
class _Api:
    """An API that only some need; `groups` are what its versions begin with."""

    name: str
    groups: tuple[str, ...]
    use: str
    fix: str


_OPTIONAL: Final = (
    _Api("LeaderWorkerSet", ("leaderworkerset.x-k8s.io/",), "workers that span nodes", "install LeaderWorkerSet"),
    _Api("metrics API", ("metrics.k8s.io/",), "autoscaling by CPU or memory", "install metrics-server"),
    _Api("device claims (DRA)", ("resource.k8s.io/v1",), "resourceClaims", "upgrade to 1.34 and install a driver"),
    _Api(
        "Gateway API", ("gateway.networking.k8s.io/",), "the chart's HTTPRoute", "install the Gateway API's resources"
    ),
    _Api(
        "InferencePool",
        ("inference.networking.k8s.io/", "inference.networking.x-k8s.io/"),
        "gateways of others that pick workers by our advice",
        "install the inference extension's resources",
    ),
)


def _optional_groups(facts: ClusterFacts) -> Iterator[Check]:
    for api in _OPTIONAL:
        served = sorted(group for group in facts.groups if group.startswith(api.groups))
        absent = Check(api.name, Level.OPTIONAL, f"absent; needed for {api.use}", api.fix)
        yield _ok(api.name, served[-1]) if served else absent


def _image_volumes(version: str) -> Check:
    known, usual = _IMAGE_VOLUMES
    name, found = "image volumes", release(version)
    if found >= usual:
        return _ok(name, f"part of {version}; the nodes' container runtime must know them, too")
    if found >= known:
        return Check(
            name, Level.OPTIONAL, "off by default; needed for model sources of kind oci", "switch on ImageVolume"
        )
    return Check(name, Level.OPTIONAL, "absent; needed for model sources of kind oci", "upgrade to Kubernetes 1.35")


def _clocks(facts: ClusterFacts) -> Iterator[Check]:
    if facts.served_at is None:
        return
    off = facts.seen_at - facts.served_at
    if abs(off) > _SKEW_S:
        yield Check(
            "this machine's clock", Level.OPTIONAL, f"{_off(off)} the cluster's", "let NTP set it; ages shown are wrong"
        )
    wrong = list(_wrong_clocks(facts.leases or (), facts.served_at))
    yield from wrong
    if facts.leases and not wrong:
        yield _ok("nodes' clocks", f"{len(facts.leases)} nodes agree with the API server")


def _wrong_clocks(leases: Sequence[Object], served_at: float) -> Iterator[Check]:
    for lease in leases:
        renewed = seconds(text(lease, "spec", "renewTime"))
        name = f"clock of {name_of(lease)}"
        if renewed is not None and renewed - served_at > _SKEW_S:
            yield Check(name, Level.LACKING, f"{_off(renewed - served_at)} the API server's", "let NTP set it")
        elif renewed is not None and served_at - renewed > _SILENT_S:
            detail = f"its Lease is {duration(served_at - renewed)} old: the node is down, or its clock is behind"
            yield Check(name, Level.OPTIONAL, detail, f"see `kubectl describe node {name_of(lease)}`")


def _off(off_s: float) -> str:
    return f"is {duration(abs(off_s))} {'ahead of' if off_s > 0 else 'behind'}"
