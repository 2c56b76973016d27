"""What loading from the store's tiers takes the engines beside it, for routers: told when it has changed enough.

Problem: what a hit in a lower tier is worth depends on disks, networks and what else they do.
Idea: engines measure each load (`inferplane_kv_connector.worth`) and tell their store; its figures come here with every
answer.  Seconds per block become seconds per token, the mean of the engines that know the tier.
Trade-off: a change of less than a tenth is not told, or every load would be a message to every router.
Invariant: what was told last is within a tenth of what was measured last.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from inferplane_api.proto import worker_pb2 as pb
from inferplane_workers.agent.stored_blocks import PLANES

_CHANGE: Final = 0.1


@dataclass(slots=True)
class TierPrices:
    told: dict[str, float] = field(default_factory=dict[str, float])
    """Seconds per token by tier."""

    def take(self, stat: Mapping[str, Any]) -> bool:
        """Take a store's figures; return whether there is something to tell."""
        now = measured(stat["engines"])
        if now.keys() <= self.told.keys() and not any(_differ(now[tier], self.told[tier]) for tier in now):
            return False
        self.told = {**self.told, **now}  # an engine that restarts has measured nothing, and the tier is what it was
        return True

    def messages(self) -> list[pb.TierPrice]:
        return [pb.TierPrice(plane=PLANES[tier], token_s=seconds) for tier, seconds in sorted(self.told.items())]


def measured(engines: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Return seconds per token by tier: the mean over the engines that have loaded from it."""
    found: dict[str, list[float]] = {}
    for engine in engines:
        for tier, seconds in engine["blockS"].items():
            if tier in PLANES and seconds > 0.0:
                found.setdefault(tier, []).append(seconds / engine["blockTokens"])
    return {tier: sum(times) / len(times) for tier, times in found.items()}


def _differ(one: float, other: float) -> bool:
    return abs(one - other) > _CHANGE * other
