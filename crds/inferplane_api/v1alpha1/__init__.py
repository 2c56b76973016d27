"""Custom resources of `inferplane.dev/v1alpha1`: one module per kind; `manifests` reads them from YAML."""

from inferplane_api.v1alpha1.conditions import Condition, ConditionStatus, ConditionType, Reason
from inferplane_api.v1alpha1.decode_pool import DecodePool
from inferplane_api.v1alpha1.engine import Device, EngineSpec, EngineType
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
