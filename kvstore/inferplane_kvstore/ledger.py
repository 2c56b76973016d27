"""Who may hold how many bytes, and who holds how many, over all tiers of this node.

A tenant with a quota has its own bytes and cannot be pushed below them by itself only: others share what is left.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from inferplane_kv_connector.keys import NOBODY


@dataclass(slots=True)
class Ledger:
    quotas: Mapping[bytes, int] = field(default_factory=dict[bytes, int])
    """Most bytes by owner."""
    _used: dict[bytes, int] = field(default_factory=dict[bytes, int], init=False)

    def account(self, owner: bytes) -> bytes:
        """Return whose room a block of this owner takes: its own with a quota, everybody's without."""
        return owner if owner in self.quotas else NOBODY

    def over(self, owner: bytes, more: int) -> bool:
        """Whether `more` bytes would be above the owner's quota."""
        limit = self.quotas.get(owner)
        return limit is not None and self._used.get(owner, 0) + more > limit

    def add(self, owner: bytes, size: int) -> None:
        self._used[owner] = self._used.get(owner, 0) + size
        if not self._used[owner]:
            del self._used[owner]

    def used(self) -> dict[bytes, int]:
        return dict(self._used)
