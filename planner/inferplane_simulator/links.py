"""Transfers of KV between workers: each sender's link carries one after the other.

A fair share would end all transfers late and none early; one after the other is what a transfer engine with a queue
does, and the last one ends at the same time.
"""

from inferplane_engine.timing import TimingProfile


class Links:
    """When what is sent arrives, by sender."""

    def __init__(self) -> None:
        self._free_at: dict[str, float] = {}

    def arrives_at(self, sender: str, profile: TimingProfile, tokens: int, now: float) -> float:
        """Put `tokens` tokens of KV on the sender's link and return when the last has arrived."""
        begin = max(now, self._free_at.get(sender, 0.0))
        end = begin + tokens * profile.kv_bytes_per_token / profile.link.bytes_per_s
        self._free_at[sender] = end
        return end + profile.link.latency_s
