"""What one worker runs on: devices, how many nodes they are spread over, and how a scheduler finds them.

The spec says how a model is spread (TP x PP x DP), the accelerator class what a node offers; the two together give the
devices of a Pod.  Devices that the user names himself (limits, claims) are left alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from inferplane_api.v1alpha1.engine import Device, EngineSpec, EngineType
from inferplane_api.v1alpha1.pool_template import PoolTemplate, ResourceClaim
from inferplane_operator.render.accelerators import DEVICE_RESOURCES, AcceleratorClass, Accelerators
from inferplane_operator.render.errors import RenderError
from inferplane_operator.render.values import Manifest

_HOST: Final = "kubernetes.io/hostname"


@dataclass(frozen=True, slots=True)
class Hardware:
    """Of one worker; without devices it computes on processors."""

    device: Device = Device.CPU
    devices: int = 0
    nodes: int = 1
    accelerator: AcceleratorClass | None = None

    @property
    def devices_per_node(self) -> int:
        return self.devices // self.nodes

    @property
    def resource(self) -> str:
        """Extended resource of its devices; "" where there is none."""
        return self.accelerator.resource_name if self.accelerator else DEVICE_RESOURCES.get(self.device, "")


def hardware_of(
    pool: PoolTemplate, engine: EngineSpec, accelerators: Accelerators, *, in_cluster: bool, path: str
) -> Hardware:
    """Put together what the spec and the class say; `path` is the pool's field.  Raises RenderError.

    A machine has what it has: outside a cluster a class is only a name.
    """
    found = accelerators.get(pool.accelerator) if pool.accelerator else None
    if engine.type is EngineType.SIM:
        return Hardware(accelerator=found)
    if pool.accelerator and found is None:
        fix = f"use one of {accelerators.names}, or describe it in the operator's accelerator classes"
        raise RenderError(f"{path}.accelerator", f"{pool.accelerator!r} is not known", fix)
    if not in_cluster:
        return Hardware(engine.device, 0 if engine.device is Device.CPU else pool.parallelism.devices)
    if found is not None:
        _check_class(found, pool, engine, path)
    if engine.device is Device.CPU:
        return Hardware(accelerator=found)
    devices = pool.parallelism.devices
    return Hardware(engine.device, devices, _nodes(pool, found, path), found)


def _check_class(found: AcceleratorClass, pool: PoolTemplate, engine: EngineSpec, path: str) -> None:
    if found.device is not engine.device:
        message = f"{pool.accelerator} computes on {found.device}, and spec.engine.device is {engine.device}"
        raise RenderError(f"{path}.accelerator", message, f"set spec.engine.device to {found.device}, or change this")
    if found.mig_profile and pool.parallelism.devices > 1:
        raise RenderError(
            f"{path}.parallelism",
            f"slices such as {pool.accelerator} cannot share a model",
            "leave tensor, pipeline and data at 1 and add replicas, or use whole devices",
        )


def _nodes(pool: PoolTemplate, found: AcceleratorClass | None, path: str) -> int:
    devices, per_node = pool.parallelism.devices, found.devices_per_node if found else 0
    if per_node == 0 or devices <= per_node:
        return 1
    if pool.parallelism.data > 1:
        raise RenderError(
            f"{path}.parallelism.data",
            f"{devices} devices do not fit on one node of {pool.accelerator} ({per_node}), and ranks on other nodes"
            " are out of their agent's reach",
            "lower data and add replicas",
        )
    # Every node gets as many devices as the others: engines split ranks evenly.
    return next(nodes for nodes in range(2, devices + 1) if devices % nodes == 0 and devices // nodes <= per_node)


def container_resources(pool: PoolTemplate, hardware: Hardware) -> Manifest:
    """Return `resources` of the engine container."""
    wanted = pool.resources
    limits = dict(wanted.limits)
    if hardware.devices and hardware.resource and not wanted.names_device:
        limits[hardware.resource] = str(hardware.devices_per_node)
    resources: Manifest = {}
    if wanted.requests:
        resources["requests"] = dict(wanted.requests)
    if limits:
        resources["limits"] = limits
    if wanted.claims:
        resources["claims"] = [{"name": claim.name} for claim in wanted.claims]
    return resources


def scheduling(hardware: Hardware, selector: Mapping[str, str]) -> Manifest:
    """Return the parts of a Pod that say where it may run; workers of one kind rather stand apart than together."""
    spread = {
        "maxSkew": 1,
        "topologyKey": _HOST,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": dict(selector)},
    }
    body: Manifest = {"topologySpreadConstraints": [spread]}
    found = hardware.accelerator
    if found is not None and hardware.devices and found.runtime_class_name:
        body["runtimeClassName"] = found.runtime_class_name
    if found is not None and found.node_selector:
        body["nodeSelector"] = dict(found.node_selector)
    return body


def claims_of(pool: PoolTemplate, *, prefix: str) -> list[Manifest]:
    """Return `resourceClaims` of the Pod; `prefix` begins the names of templates that are made for it."""
    return [_claim(claim, prefix) for claim in pool.resources.claims]


def _claim(claim: ResourceClaim, prefix: str) -> Manifest:
    if claim.device_class_name is not None:
        return {"name": claim.name, "resourceClaimTemplateName": f"{prefix}-{claim.name}"}
    named: Manifest = claim.model_dump(
        by_alias=True, exclude_none=True, include={"name", "resource_claim_name", "resource_claim_template_name"}
    )
    return named


def claim_templates(pool: PoolTemplate, hardware: Hardware, *, prefix: str, namespace: str) -> tuple[Manifest, ...]:
    """Make the ResourceClaimTemplates that the pool's claims ask for by device class.

    They cannot be changed once they exist, so their names hold the revision.
    """
    return tuple(
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaimTemplate",
            "metadata": {"name": f"{prefix}-{claim.name}", "namespace": namespace},
            "spec": {"spec": {"devices": {"requests": [{"name": claim.name, "exactly": _request(claim, hardware)}]}}},
        }
        for claim in pool.resources.claims
        if claim.device_class_name is not None
    )


def _request(claim: ResourceClaim, hardware: Hardware) -> Manifest:
    request: Manifest = {
        "deviceClassName": claim.device_class_name,
        "allocationMode": "ExactCount",
        "count": claim.count or max(1, hardware.devices_per_node),
    }
    if claim.selectors:
        request["selectors"] = [{"cel": {"expression": expression}} for expression in claim.selectors]
    return request
