"""Custom resources of `inferplane.dev/v1alpha1`: one module per kind; `manifests` reads them from YAML.

Names are imported when they are asked for: building every kind's model takes longer than an agent, which only wants
the names of engines, takes for all else of ours.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from inferplane_api.v1alpha1.conditions import Condition, ConditionStatus, ConditionType, Reason
    from inferplane_api.v1alpha1.decode_pool import DecodePool
    from inferplane_api.v1alpha1.engine import EngineSpec
    from inferplane_api.v1alpha1.engine_names import Device, EngineType
    from inferplane_api.v1alpha1.inference_service import InferenceService
    from inferplane_api.v1alpha1.kinds import KINDS, Resource
    from inferplane_api.v1alpha1.kv_store import KVStore
    from inferplane_api.v1alpha1.lora_adapter import LoRAAdapter
    from inferplane_api.v1alpha1.metadata import API_VERSION, ObjectMeta
    from inferplane_api.v1alpha1.model_route import ModelRoute
    from inferplane_api.v1alpha1.prefill_pool import PrefillPool

__all__ = [
    "API_VERSION",
    "KINDS",
    "Condition",
    "ConditionStatus",
    "ConditionType",
    "DecodePool",
    "Device",
    "EngineSpec",
    "EngineType",
    "InferenceService",
    "KVStore",
    "LoRAAdapter",
    "ModelRoute",
    "ObjectMeta",
    "PrefillPool",
    "Reason",
    "Resource",
]

_WHERE: Final = {
    "conditions": ("Condition", "ConditionStatus", "ConditionType", "Reason"),
    "decode_pool": ("DecodePool",),
    "engine": ("EngineSpec",),
    "engine_names": ("Device", "EngineType"),
    "inference_service": ("InferenceService",),
    "kinds": ("KINDS", "Resource"),
    "kv_store": ("KVStore",),
    "lora_adapter": ("LoRAAdapter",),
    "metadata": ("API_VERSION", "ObjectMeta"),
    "model_route": ("ModelRoute",),
    "prefill_pool": ("PrefillPool",),
}


def __getattr__(name: str) -> object:
    for module, names in _WHERE.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    message = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(message)
