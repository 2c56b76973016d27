"""Which prefill peers' blocks arrive unharmed, as far as this decode worker has checked.

Problem: blocks that are damaged between two memories give fluent nonsense, and no engine says a checksum of them.
Idea: whoever handed blocks over is soon asked for a prompt with a known answer; a peer that gives a wrong one is not
used until it gives a right one.  Trade-off: requests between the damage and the next check are not protected.
Invariant: a peer that was never found wrong is trusted; what could not be asked proves nothing.
"""

from dataclasses import dataclass


@dataclass(slots=True)
class _Peer:
    used_at: float
    checked_at: float | None = None
    good: bool = True


class Peers:
    """The peers of one decode worker, by address; times are the agent's clock in seconds."""

    __slots__ = ("_checking", "_forget_s", "_interval_s", "_peers")

    def __init__(self, *, interval_s: float = 300.0) -> None:
        self._interval_s = interval_s
        self._forget_s = 2 * interval_s
        self._peers: dict[str, _Peer] = {}
        self._checking = ""

    def used(self, address: str, now: float) -> None:
        """Note that blocks come from there."""
        peer = self._peers.setdefault(address, _Peer(now))
        peer.used_at = now

    def trusted(self, address: str, request_id: str) -> bool:
        """Whether a request may get blocks from there; the check itself always may."""
        peer = self._peers.get(address)
        return peer is None or peer.good or request_id == self._checking

    def due(self, now: float) -> str | None:
        """Return the peer whose check is the most overdue; forget those that nobody uses."""
        for address, peer in list(self._peers.items()):
            if peer.good and now - peer.used_at > self._forget_s:
                del self._peers[address]
        waiting = [(peer.checked_at, address) for address, peer in self._peers.items() if self._is_due(peer, now)]
        return min(waiting, key=lambda each: -1.0 if each[0] is None else each[0])[1] if waiting else None

    def begin(self, request_id: str) -> None:
        """Name the request that checks."""
        self._checking = request_id

    def judged(self, address: str, now: float, *, good: bool | None) -> bool:
        """Take a check's result (None: it could not be made); say whether trust has changed."""
        self._checking = ""
        peer = self._peers.get(address)
        if peer is None:
            return False
        peer.checked_at = now
        changed = good is not None and good != peer.good
        peer.good = peer.good if good is None else good
        return changed

    @property
    def distrusted(self) -> int:
        return sum(not peer.good for peer in self._peers.values())

    def _is_due(self, peer: _Peer, now: float) -> bool:
        if peer.checked_at is None:
            return True
        return now - peer.checked_at >= self._interval_s and (not peer.good or peer.used_at > peer.checked_at)
