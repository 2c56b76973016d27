"""Requests for blocks as services make them, and what the best possible cache would have answered."""

import bisect
import hashlib
import heapq
import itertools
import random
from collections.abc import Sequence


def block(number: int) -> bytes:
    return hashlib.blake2b(str(number).encode(), digest_size=32).digest()


def zipf(blocks: int, exponent: float, count: int, rng: random.Random, *, first: int = 0) -> list[int]:
    weights = list(itertools.accumulate(1 / (rank + 1) ** exponent for rank in range(blocks)))
    return [first + bisect.bisect(weights, rng.random() * weights[-1]) for _ in range(count)]


def favourites_between_scans(rng: random.Random, rounds: int) -> list[int]:
    asked: list[int] = []
    for number in range(rounds):
        asked += zipf(5000, 0.9, 2000, rng)
        asked += range(1_000_000 + 1000 * number, 1_001_000 + 1000 * number)
    return asked


def conversations(rng: random.Random, turns: int) -> list[int]:
    """Each turn asks for the whole conversation so far, which begins with one of forty system prompts."""
    fresh = itertools.count(10_000_000)
    running: list[list[int]] = []
    asked: list[int] = []
    for _ in range(turns):
        if not running or rng.random() < 0.15:
            running.append([5_000_000 + rng.randrange(40), next(fresh), next(fresh)])
        chat = rng.choice(running[-60:])
        chat.append(next(fresh))
        asked += chat
        if rng.random() < 0.12:
            running.remove(chat)
    return asked


def ideal_hits(asked: Sequence[int], capacity: int) -> int:
    """Return the hits of a cache that knows the future."""
    following, last = [0] * len(asked), dict[int, int]()
    for index in range(len(asked) - 1, -1, -1):
        following[index] = last.get(asked[index], len(asked) * 2)
        last[asked[index]] = index
    held: dict[int, int] = {}
    farthest: list[tuple[int, int]] = []
    hits = 0
    for index, wanted in enumerate(asked):
        if wanted in held:
            hits += 1
        elif len(held) >= capacity:
            while held.get(farthest[0][1]) != -farthest[0][0]:
                heapq.heappop(farthest)
            del held[heapq.heappop(farthest)[1]]
        held[wanted] = following[index]
        heapq.heappush(farthest, (-following[index], wanted))
    return hits
