"""The kinds of this version, by name."""

from typing import Final

from inferplane_api.v1alpha1.decode_pool import DecodePool
from inferplane_api.v1alpha1.inference_service import InferenceService
from inferplane_api.v1alpha1.kv_store import KVStore
from inferplane_api.v1alpha1.lora_adapter import LoRAAdapter
from inferplane_api.v1alpha1.model_route import ModelRoute
from inferplane_api.v1alpha1.prefill_pool import PrefillPool

Resource = InferenceService | PrefillPool | DecodePool | KVStore | LoRAAdapter | ModelRoute

KINDS: Final[dict[str, type[Resource]]] = {
    "InferenceService": InferenceService,
    "PrefillPool": PrefillPool,
    "DecodePool": DecodePool,
    "KVStore": KVStore,
    "LoRAAdapter": LoRAAdapter,
    "ModelRoute": ModelRoute,
}
