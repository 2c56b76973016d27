"""Which beginnings of prompts are asked for most, and who holds them.

Problem: routing by what is cached is hard to believe until one sees the prompts' common beginnings and where they live.
Idea: a block's hash names all that comes before it, so prompts that share a hash share the prefix, and a prefix ends
where fewer prompts go on.  The last decisions have their hashes already: counting equal ones is one sort.
Trade-off: only the last decisions are looked at, and of long prompts fewer of them.
Invariant: what is told of a prefix was asked for at least twice; the work is bounded, whatever prompts are like.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from inferplane_router.core.fleet import Fleet
from inferplane_router.core.index_kernels import FIRM
from inferplane_router.core.score_kernels import Slots
from inferplane_router.core.values import Hashes

MOST_BLOCKS: Final = 32_768
"""Blocks that are counted: a few milliseconds."""


@dataclass(frozen=True, slots=True)
class SharedPrefix:
    """A beginning that several prompts have in common: its blocks, and how many prompts had it."""

    keys: Hashes
    asked: int


@dataclass(frozen=True, slots=True)
class HeldPrefix:
    """The same with where it lives; `held` has tokens by worker, for who holds its beginning at least."""

    name: int
    """Hash of its last block."""
    tokens: int
    asked: int
    held: dict[str, int]


def shared_prefixes(chains: Sequence[Hashes], most: int, *, most_blocks: int = MOST_BLOCKS) -> list[SharedPrefix]:
    """Return the prefixes that save most if they are cached: blocks times prompts; `chains` has the newest first."""
    chains = _within(chains, most_blocks)
    if not chains:
        return []
    flat = np.concatenate(chains)
    _, inverse, counts = np.unique(flat, return_inverse=True, return_counts=True)
    asked = counts[inverse]
    lengths = np.array([chain.shape[0] for chain in chains])
    ends = np.cumsum(lengths)
    depth = _depths(lengths, ends)
    goes_on = np.append(asked[1:] == asked[:-1], False)
    goes_on[ends - 1] = False
    found = np.flatnonzero(~goes_on & (asked > 1))
    _, first = np.unique(flat[found], return_index=True)
    found = found[first]
    best = _heaviest(asked, depth, found)[:most].tolist()
    return [SharedPrefix(flat[at + 1 - int(depth[at]) : at + 1], int(asked[at])) for at in best]


def held_prefixes(fleet: Fleet, chains: dict[int, list[Hashes]], most: int) -> list[HeldPrefix]:
    """Return the same for prompts of one service, by the seed of their hashes, with who holds them now or soon."""
    found: list[HeldPrefix] = []
    for number, space in enumerate(fleet.spaces):
        size = space.key.block_size
        for start in set(space.seeds.values()) & chains.keys():
            for prefix in shared_prefixes(chains[start], most):
                held = {worker: blocks * size for worker, blocks in _holders(fleet, number, prefix.keys).items()}
                found.append(HeldPrefix(int(prefix.keys[-1]), prefix.keys.shape[0] * size, prefix.asked, held))
    return sorted(found, key=lambda it: (-it.tokens * it.asked, it.name))[:most]


def _depths(lengths: Slots, ends: Slots) -> Slots:
    """Return the place of each block within its chain, from 1."""
    places: Slots = np.arange(int(lengths.sum())) - np.repeat(ends - lengths, lengths) + 1
    return places


def _heaviest(asked: Slots, depth: Slots, found: Slots) -> Slots:
    """Order ends of prefixes by blocks times prompts."""
    weight = asked[found].astype(np.int64) * depth[found].astype(np.int64)
    order: Slots = np.lexsort((found, -weight))
    return found[order]


def _within(chains: Sequence[Hashes], most_blocks: int) -> list[Hashes]:
    """Return as many chains as have so many blocks together."""
    taken, left = list[Hashes](), most_blocks
    for chain in chains:
        if not 0 < chain.shape[0] <= left:
            continue
        taken.append(chain)
        left -= chain.shape[0]
    return taken


def _holders(fleet: Fleet, number: int, keys: Hashes) -> dict[str, int]:
    """Return how many blocks of a prefix each worker holds, in any of its tiers."""
    counts = np.zeros_like(fleet.counts)
    fleet.spaces[number].find(keys, counts)
    held: dict[str, int] = {}
    blocks = counts[:, :FIRM].sum(axis=1)
    for slot in np.flatnonzero((fleet.space_of == number) & (blocks > 0)).tolist():
        if (ref := fleet.refs[slot]) is not None:
            held[ref.worker_id] = max(held.get(ref.worker_id, 0), int(blocks[slot]))
    return held
