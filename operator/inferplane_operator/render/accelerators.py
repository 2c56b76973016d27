"""Accelerator classes: what a name such as `h100` means in this cluster, as data.

Problem: which resource a device plugin offers, how much memory stands behind it, which nodes have it and what it costs
differs between clusters and changes without a release of ours.
Idea: a pool names a class; a table says the rest.  Common classes are built in; a file (a mounted ConfigMap, say) adds
classes and replaces built-in ones of the same name, whole.
Trade-off: built-in classes select no nodes, since no label for them is common to all clusters: where nodes with
different devices offer the same resource, the file has to.
Invariant: a pool that names a class which nobody described is not rendered.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self, cast

import yaml
from pydantic import Field, ValidationError, model_validator

from inferplane_api.v1alpha1.engine import Device
from inferplane_api.v1alpha1.problems import problems_of
from inferplane_api.v1alpha1.units import ByteCount
from inferplane_api.v1alpha1.wire import FROM_OUTSIDE, Finding, WireModel, invalid

DEVICE_RESOURCES: Final[Mapping[Device, str]] = {
    Device.CUDA: "nvidia.com/gpu",
    Device.ROCM: "amd.com/gpu",
    Device.XPU: "gpu.intel.com/xe",
    Device.NPU: "huawei.com/Ascend910",
}
"""What the makers' device plugins call a whole device."""
_GI: Final = 1024**3


class AcceleratorsError(Exception):
    """A file of classes cannot be used: every problem with its field and fix."""


class AcceleratorClass(WireModel):
    """One kind of device, as a pool asks for it."""

    vendor: str = Field(default="", max_length=64, description="Who makes it, for people.")
    device: Device = Field(default=Device.CUDA, description="What an engine computes on.")
    resource: str = Field(default="", max_length=316, description="Resource to ask for; default: by device and slice.")
    memory_bytes: ByteCount = Field(default=0, description="Memory of one device; 0: unknown.")
    devices_per_node: int = Field(default=0, ge=0, le=1024, description="Devices of one node; 0: unknown.")
    mig_profile: str = Field(
        default="",
        max_length=32,
        pattern=r"^([0-9]+g\.[0-9]+gb(\.[a-z]+)?(\+[a-z0-9.]+)?)?$",
        description="Slice of a device, such as 3g.40gb; empty: whole devices.",
    )
    runtime_class_name: str = Field(default="", max_length=253, description="RuntimeClass that its Pods need.")
    node_selector: dict[str, str] = Field(default_factory=dict, description="Labels of the nodes that have it.")
    price_per_hour: float = Field(default=0.0, ge=0, description="Cost of one device; 0: unknown.")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.mig_profile and self.device is not Device.CUDA:
            raise invalid(Finding("migProfile", f"device {self.device} has no such slices", "remove it"))
        if self.device is Device.CPU and self.resource:
            raise invalid(Finding("resource", "processors are asked for as resources.requests.cpu", "remove it"))
        return self

    @property
    def resource_name(self) -> str:
        """The extended resource of one device; "" for processors."""
        if self.resource:
            return self.resource
        return f"nvidia.com/mig-{self.mig_profile}" if self.mig_profile else DEVICE_RESOURCES.get(self.device, "")


class _File(WireModel):
    classes: dict[str, AcceleratorClass] = Field(default_factory=dict, description="By name.")


def _nvidia(memory_gi: int, *, per_node: int = 8, mig: str = "") -> AcceleratorClass:
    return AcceleratorClass(
        vendor="NVIDIA", memory_bytes=memory_gi * _GI, devices_per_node=0 if mig else per_node, mig_profile=mig
    )


def _amd(memory_gi: int) -> AcceleratorClass:
    return AcceleratorClass(vendor="AMD", device=Device.ROCM, memory_bytes=memory_gi * _GI, devices_per_node=8)


def _ascend(resource: str, memory_gi: int) -> AcceleratorClass:
    return AcceleratorClass(
        vendor="Huawei", device=Device.NPU, resource=resource, memory_bytes=memory_gi * _GI, devices_per_node=8
    )


def built_in_classes() -> dict[str, AcceleratorClass]:
    """Classes that need no file; memory is what the makers' tools report, rounded down to whole GiB."""
    return {
        "l4": _nvidia(22),
        "l40s": _nvidia(44),
        "a100-40gb": _nvidia(39),
        "a100": _nvidia(79),
        "h100": _nvidia(79),
        "h200": _nvidia(139),
        "b200": _nvidia(178),
        "h100-1g.10gb": _nvidia(9, mig="1g.10gb"),
        "h100-2g.20gb": _nvidia(19, mig="2g.20gb"),
        "h100-3g.40gb": _nvidia(39, mig="3g.40gb"),
        "mi300x": _amd(191),
        "mi325x": _amd(255),
        "mi355x": _amd(287),
        "ascend-910b": _ascend("huawei.com/Ascend910", 60),
        "ascend-310p": _ascend("huawei.com/Ascend310P", 21),
        "cpu": AcceleratorClass(device=Device.CPU),
    }


@dataclass(frozen=True, slots=True)
class Accelerators:
    """The table."""

    classes: Mapping[str, AcceleratorClass] = field(default_factory=built_in_classes)

    def get(self, name: str) -> AcceleratorClass | None:
        return self.classes.get(name)

    @property
    def names(self) -> str:
        return ", ".join(sorted(self.classes))


def read_accelerators(text: str, *, source: str = "accelerator classes") -> Accelerators:
    """Read a file of classes (YAML or JSON, `classes: {NAME: {...}}`) over the built-in ones.

    Raises AcceleratorsError.
    """
    try:
        value: object = yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        raise AcceleratorsError(f"{source}: it is not YAML: {error}") from error
    if not isinstance(value, dict):
        raise AcceleratorsError(f"{source}: it is not a mapping; write classes: and a mapping of names below it")
    return Accelerators(built_in_classes() | _parse(cast("dict[str, Any]", value), source).classes)


def _parse(value: dict[str, Any], source: str) -> _File:
    try:
        return _File.model_validate_json(
            json.dumps(value), strict=True, context={FROM_OUTSIDE: True}, by_alias=True, by_name=False
        )
    except ValidationError as error:
        problems = problems_of(error, root=_File, line_of=lambda _location: None)
        raise AcceleratorsError("\n".join(f"{source}: {problem}" for problem in problems)) from error
