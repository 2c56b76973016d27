"""How much of a prompt a decode engine already had, seen from its own block events.

Problem: after a hand-off vLLM states the prefill side's cached tokens, so the decode side's own hits are in no answer.
Idea: the router sends a prompt's chain of blocks; those of them that the engine stores while the request runs were
pulled, the others were there.  Trade-off: two requests that pull the same block at once cannot be told apart.
Invariant: a number is given only where it is certain.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(slots=True)
class _Watch:
    chain: Sequence[int]
    stored: int = 0
    shared: bool = False


class DecodeHits:
    """Watches the chains of requests that were handed off to one rank."""

    __slots__ = ("_block_size", "_by_hash", "_watches")

    def __init__(self, block_size: int) -> None:
        self._block_size = block_size
        self._watches: dict[str, _Watch] = {}
        self._by_hash: dict[int, list[_Watch]] = {}

    def open(self, request_id: str, chain: Sequence[int]) -> None:
        if request_id in self._watches:
            return
        watch = self._watches[request_id] = _Watch(chain)
        for hashed in chain:
            self._by_hash.setdefault(hashed, []).append(watch)

    def stored(self, hashes: Iterable[int]) -> None:
        """Note blocks that entered the device plane."""
        if not self._watches:
            return
        for hashed in hashes:
            watches = self._by_hash.get(hashed)
            if watches is None:
                continue
            for watch in watches:
                watch.stored += 1
                watch.shared = watch.shared or len(watches) > 1

    def close(self, request_id: str, prompt_tokens: int) -> int | None:
        """End a watch; return the tokens that were there before, or None when that is not certain."""
        watch = self._watches.pop(request_id, None)
        if watch is None:
            return None
        for hashed in watch.chain:
            others = self._by_hash[hashed]
            others.remove(watch)
            if not others:
                del self._by_hash[hashed]
        if watch.shared or not prompt_tokens or len(watch.chain) != prompt_tokens // self._block_size:
            return None
        # The last token is always computed or pulled anew, and with it the block that ends there.
        reusable = (prompt_tokens - 1) // self._block_size
        return min(len(watch.chain) - watch.stored, reusable) * self._block_size
