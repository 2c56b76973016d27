"""What an eviction policy is: the order in which blocks of one size leave, and nothing of where they are.

Whoever calls it knows the capacity and asks for a victim when it needs room.  Keys are uniform hashes.
"""

from typing import Protocol


class Policy(Protocol):
    def insert(self, key: bytes, /) -> None:
        """Take in a block that came."""
        ...

    def touch(self, key: bytes, /) -> None:
        """Note a use of a block that is there; others are ignored."""
        ...

    def discard(self, key: bytes, /) -> None:
        """Forget a block that went for another reason."""
        ...

    def victim(self) -> bytes | None:
        """Choose who goes and forget it; None when there is nobody."""
        ...

    def __len__(self) -> int: ...
