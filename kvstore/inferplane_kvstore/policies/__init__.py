"""Which block goes when room is needed: one file a policy, one line here to add another."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from inferplane_kvstore.policies.dueling import Dueling
from inferplane_kvstore.policies.lru import LRU
from inferplane_kvstore.policies.policy import Policy
from inferplane_kvstore.policies.s3fifo import S3FIFO
from inferplane_kvstore.policies.tinylfu import WTinyLFU
from inferplane_kvstore.sketch import FrequencySketch

__all__ = ["DEFAULT_POLICY", "LRU", "POLICIES", "S3FIFO", "Dueling", "Policy", "WTinyLFU"]


def _dueling(sketch: FrequencySketch) -> Dueling:
    return Dueling([(S3FIFO(), S3FIFO()), (LRU(), LRU()), (WTinyLFU(sketch), WTinyLFU(sketch))])


POLICIES: Final[Mapping[str, Callable[[FrequencySketch], Policy]]] = MappingProxyType(
    {"adaptive": _dueling, "lru": lambda _: LRU(), "s3-fifo": lambda _: S3FIFO(), "w-tinylfu": WTinyLFU}
)
DEFAULT_POLICY: Final = "adaptive"
