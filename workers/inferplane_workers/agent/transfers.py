"""Blocks that this engine holds for others to pull.

A prefill engine keeps a finished prompt's blocks until a decode engine has pulled them or a lease has lapsed.  If it
ends earlier, that decode fails or computes again, so a drain waits for this list to empty.
Invariant: every entry leaves, by a confirmation or by its lease.
"""


class Transfers:
    """Outstanding transfers by request id, each with the moment its lease lapses."""

    __slots__ = ("_lapses", "_lease_s")

    def __init__(self, *, lease_s: float) -> None:
        self._lease_s = lease_s
        self._lapses: dict[str, float] = {}

    def offered(self, request_id: str, now: float) -> None:
        self._lapses[request_id] = now + self._lease_s

    def resolved(self, request_id: str) -> bool:
        """Forget a transfer; True if it was outstanding."""
        return self._lapses.pop(request_id, None) is not None

    def outstanding(self, now: float) -> int:
        """Count what still holds, dropping what has lapsed."""
        lapsed = [request_id for request_id, at in self._lapses.items() if at <= now]
        for request_id in lapsed:
            del self._lapses[request_id]
        return len(self._lapses)
