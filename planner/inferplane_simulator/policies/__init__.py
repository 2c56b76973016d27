"""Routing policies to compare with: the router's own, and those of other projects after their descriptions.

All of them see the same view: the same index, the same loads, the same filters and the same rule of who has room.
"""

from collections.abc import Callable
from types import MappingProxyType
from typing import Final

from inferplane_router.core import plugins
from inferplane_router.core.placing import Policy
from inferplane_simulator.policies.balanced_tree import BalancedTree
from inferplane_simulator.policies.block_cost import BlockCost
from inferplane_simulator.policies.prefix_match import PrefixMatch
from inferplane_simulator.policies.sticky import Sticky

POLICIES: Final = MappingProxyType[str, Callable[[], Policy]](
    {
        **plugins.POLICIES,
        BlockCost.name: BlockCost,
        Sticky.name: Sticky,
        BalancedTree.name: BalancedTree,
        PrefixMatch.name: PrefixMatch,
    }
)
