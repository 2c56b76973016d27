"""How the engine's memory becomes one run of bytes per block, and back.

Every layer's cache is seen as [block, heads, tokens, content], whatever its layout in memory is; a record holds a
block's part of each layer, one after the other, in that order.  So engines with other layouts understand each other.
Copies are made for many blocks at once: a layer at a time, not a block at a time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

torch: Any = import_module("torch")


class UnknownMemoryError(Exception):
    """The engine's memory is not laid out as this module knows it."""


@dataclass(frozen=True, slots=True)
class Records:
    layers: tuple[Any, ...]
    """Tensors whose first dimension is the block, in the order of a record."""
    sizes: tuple[int, ...]
    """Bytes of one block in each layer."""

    @staticmethod
    def of(caches: Mapping[str, Any], blocks: int) -> "Records":
        """Raise UnknownMemoryError."""
        layers = tuple(_by_block(name, caches[name], blocks) for name in sorted(caches))
        if not layers:
            raise UnknownMemoryError("there is no cache")
        return Records(layers, tuple(layer[0].numel() * layer.element_size() for layer in layers))

    @property
    def record_bytes(self) -> int:
        return sum(self.sizes)

    def gather(self, blocks: Sequence[int]) -> list[Any]:
        """Copy blocks out: one tensor of [block, bytes] a layer, on the layer's device.

        On an accelerator the copy is queued behind the computation and before whatever uses the blocks next.
        """
        device = self.layers[0].device
        index = torch.tensor(list(blocks), dtype=torch.long, device=device)
        return [
            layer.index_select(0, index).contiguous().view(torch.uint8).reshape(len(blocks), size)
            for layer, size in zip(self.layers, self.sizes, strict=True)
        ]

    def write_record(self, gathered: Sequence[Any], position: int, into: memoryview) -> None:
        """Put one of the gathered blocks (on the host by now) into a record."""
        at = 0
        for part, size in zip(gathered, self.sizes, strict=True):
            into[at : at + size] = memoryview(part[position].numpy())
            at += size

    def scatter(self, records: Sequence[memoryview], blocks: Sequence[int]) -> None:
        """Copy records into the engine's blocks; they are there when this returns."""
        index = torch.tensor(list(blocks), dtype=torch.long, device=self.layers[0].device)
        at = 0
        for layer, size in zip(self.layers, self.sizes, strict=True):
            parts = [torch.frombuffer(record, dtype=torch.uint8, count=size, offset=at) for record in records]
            values = torch.stack(parts).view(layer.dtype).reshape(len(records), *layer.shape[1:])
            with torch.inference_mode():  # the cache was made in it
                layer.index_copy_(0, index, values.to(layer.device))
            at += size
        if self.layers[0].device.type == "cuda":
            torch.cuda.current_stream(self.layers[0].device).synchronize()


def _by_block(name: str, cache: Any, blocks: int) -> Any:
    if not isinstance(cache, torch.Tensor):
        raise UnknownMemoryError(f"the cache of {name} is {type(cache).__name__}, no tensor")
    if cache.shape[0] == blocks:
        return cache
    if cache.shape[0] % blocks:
        raise UnknownMemoryError(f"the cache of {name} has {cache.shape[0]} parts for {blocks} blocks")
    return cache.unflatten(0, (blocks, -1))
