"""How many workers may be avoided at once for how their requests ended.

Problem: when requests fail for a reason that no worker is to blame for, every worker comes under suspicion, and those
that are left break under the load of the others.  Idea: at most half of those that say they are well are avoided; the
ones that were avoided first come back first.  Who cannot even be heard does not count: there is nothing to spare.
Invariant: of N workers that can be heard, at least half (rounded up) stay in use.
"""

from collections.abc import Mapping


def spared(doubted: Mapping[int, int], usable: int) -> frozenset[int]:
    """Return which of the doubted targets are to be used all the same.

    `doubted`: target -> when it came under doubt, as any rising number; `usable`: targets that can be heard, those too.
    """
    most = usable // 2
    longest_first = sorted(doubted, key=lambda slot: (doubted[slot], slot))
    return frozenset(longest_first[: max(0, len(doubted) - most)])
