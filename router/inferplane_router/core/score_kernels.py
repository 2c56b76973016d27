"""The array kernel of the kv-aware policy: one pass over targets, one over (prefill, decode) pairs.

Terms of a target are computed once; a pair then costs a handful of additions and one comparison with the limit, so
thousands of pairs fit into tens of microseconds.  What a pair needs of its prefill target lies side by side.  See
`cost` for what the terms mean.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from inferplane_engine.compiled import inline, kernel
from inferplane_router.core.index_kernels import FIRM

Floats = NDArray[np.float64]
Terms = NDArray[np.float32]
Slots = NDArray[np.int64]
Weights = tuple[float, float, float, float]
"""Limit of the TTFT, weight of a miss, weight of the request's own TTFT, width of a prediction that knows no error."""

# Columns of `speeds`: what is known of a target's engine.
PREFILL_BASE, PREFILL_TOKEN, PREFILL_ATTENTION, PREFILL_FACTOR, PREFILL_SPREAD = 0, 1, 2, 3, 4
STEP_BASE, STEP_REQUEST, STEP_CONTEXT, STEP_FACTOR, STEP_SPREAD = 5, 6, 7, 8, 9
HOST_TOKEN, DISK_TOKEN, REMOTE_TOKEN = 10, 11, 12
SPEEDS: Final = 13
# Columns of `load`.
AHEAD_TOKENS, WAITING, IN_FLIGHT, CONTEXT_TOKENS = 0, 1, 2, 3
LOADS: Final = 4
# Columns of `tags`.
REVISION, ZONE, BLOCK_SIZE, CAN_PREFILL, MOST_REQUESTS = 0, 1, 2, 3, 4
TAGS: Final = 5
# Entries of `question`.
PROMPT, OUTPUT, TTFT, TPOT, WEIGHT = 0, 1, 2, 3, 4
OWN_LATENCY, OTHERS_FLOOR, SPREAD_FLOOR, NEAR, NEAR_SHARE = 5, 6, 7, 8, 9
PAIRED, ALONE, HOLD = 10, 11, 12
QUESTION: Final = 13
# Columns of `terms`: what each target would contribute, and what that was computed from.
PREFILLED_S, PREFILL_OTHERS, TPOT_S, DECODE_COST, HIT_TOKENS, WAIT_S, STALL_S = 0, 1, 2, 3, 4, 5, 6
FIRM_TOKENS, SPREAD, WAS_AHEAD, WAS_IN_FLIGHT, WAS_CONTEXT = 7, 8, 9, 10, 11
TERMS: Final = 12

# Columns of what `choose` keeps of a prefill target.
_PREFILLED, _OTHERS, _SPREAD, _HITS, _BASE, _PER_TOKEN = 0, 1, 2, 3, 4, 5
_KEPT: Final = 6

FURTHER: Final = 2.0
"""How much longer than HOLD a prefill may wait where more of its prompt is cached."""
FALLBACKS: Final = 3
"""Prefill targets named in one answer, best first."""


@inline
def _overrun(expected: float, limit: float, half_width: float) -> float:
    """Return E[max(0, x - limit)] for x uniform within expected +- half_width."""
    over = expected + half_width - limit
    if over <= 0.0:
        return 0.0
    if over >= 2.0 * half_width:
        return expected - limit
    return over * over / (4.0 * half_width)


@inline
def _chance_over(expected: float, limit: float, half_width: float) -> float:
    return min(1.0, max(0.0, (expected + half_width - limit) / (2.0 * half_width)))


@inline
def _half_width(expected: float, spread: float, floor: float) -> float:
    return 1.7 * spread * expected + floor


@kernel
def appraise(  # noqa: PLR0917  # kernels take positional arguments only
    counts: NDArray[np.int32], speeds: Floats, load: Floats, tags: Slots, question: Floats, slots: Slots, terms: Terms
) -> None:
    """Fill `terms` of every slot in `slots`."""
    prompt, output, weight = question[PROMPT], question[OUTPUT], question[WEIGHT]
    floor = question[OTHERS_FLOOR]
    for at in range(slots.shape[0]):
        t = np.uint64(slots[at])
        size = tags[t, BLOCK_SIZE]
        lower = counts[t, 1] + counts[t, 2] + counts[t, 3]
        hit = float((counts[t, 0] + lower) * size)
        fetch = size * (
            counts[t, 1] * speeds[t, HOST_TOKEN]
            + counts[t, 2] * speeds[t, DISK_TOKEN]
            + counts[t, 3] * speeds[t, REMOTE_TOKEN]
        )
        uncached = max(1.0, prompt - hit)
        factor = speeds[t, PREFILL_FACTOR]
        attention = uncached * (hit + 0.5 * uncached)
        compute = speeds[t, PREFILL_BASE] + speeds[t, PREFILL_TOKEN] * uncached
        compute = factor * (compute + speeds[t, PREFILL_ATTENTION] * attention)
        wait = speeds[t, PREFILL_TOKEN] * load[t, AHEAD_TOKENS] + speeds[t, PREFILL_BASE] * load[t, WAITING]
        wait *= factor
        prefilled = wait + compute + fetch
        width = _half_width(prefilled, speeds[t, PREFILL_SPREAD], question[SPREAD_FLOOR])
        harm = floor + (1.0 - floor) * _chance_over(prefilled, question[TTFT], width)
        per_request = speeds[t, STEP_REQUEST] + speeds[t, STEP_CONTEXT] * (prompt + 0.5 * output)
        step = speeds[t, STEP_BASE] + speeds[t, STEP_REQUEST] * load[t, IN_FLIGHT]
        step = speeds[t, STEP_FACTOR] * (step + speeds[t, STEP_CONTEXT] * load[t, CONTEXT_TOKENS] + per_request)
        step_width = _half_width(step, speeds[t, STEP_SPREAD], 0.1 * question[SPREAD_FLOOR])
        step_harm = floor + (1.0 - floor) * _chance_over(step, question[TPOT], step_width)
        slowed = load[t, IN_FLIGHT] * per_request * output * step_harm
        terms[t, PREFILLED_S] = prefilled
        terms[t, PREFILL_OTHERS] = compute * (1.0 + load[t, WAITING]) * harm
        terms[t, TPOT_S] = step
        terms[t, DECODE_COST] = weight * output * _overrun(step, question[TPOT], step_width) + slowed
        terms[t, HIT_TOKENS] = hit
        terms[t, WAIT_S] = wait
        terms[t, STALL_S] = compute * load[t, IN_FLIGHT] * step_harm  # what its decoders lose if it prefills too
        terms[t, FIRM_TOKENS] = counts[t, FIRM] * size
        terms[t, SPREAD] = speeds[t, PREFILL_SPREAD]
        terms[t, WAS_AHEAD] = load[t, AHEAD_TOKENS]
        terms[t, WAS_IN_FLIGHT] = load[t, IN_FLIGHT]
        terms[t, WAS_CONTEXT] = load[t, CONTEXT_TOKENS]


@kernel
def expected_overrun(expected: float, limit: float, spread: float, question: Floats) -> float:
    """Return by how much a time with this relative error is expected to miss its limit."""
    return _overrun(expected, limit, _half_width(expected, spread, question[SPREAD_FLOOR]))


@inline
def _weights(question: Floats) -> Weights:
    """Return what every combination is weighed by.

    As numbers: an array that is handed to a call has its users counted, and here that cost several times the sums.
    """
    return question[TTFT], question[WEIGHT], question[OWN_LATENCY], question[SPREAD_FLOOR]


@inline
def _cost(ttft: float, spread: float, fixed: float, weights: Weights) -> float:
    limit, weight, own_latency, floor = weights
    missed = _overrun(ttft, limit, _half_width(ttft, spread, floor))
    return float(fixed + weight * missed + own_latency * ttft)


@inline
def _shuffle(seed: np.uint64, identity: np.uint64) -> np.uint64:
    """Rank a target for a prompt: the same everywhere, different for every prompt (rendezvous hashing)."""
    value = seed ^ identity
    value ^= value >> np.uint64(32)
    value *= np.uint64(0xD6E8FEB86659FD93)
    value ^= value >> np.uint64(32)
    value *= np.uint64(0xD6E8FEB86659FD93)
    return value >> np.uint64(1)


@inline
def _sources(
    terms: Terms, prefills: Slots, identities: NDArray[np.uint64], seed: np.uint64
) -> tuple[Floats, NDArray[np.uint64]]:
    """Lay side by side what pairs need of each prefill target, with its rank."""
    m = prefills.shape[0]
    kept, ranks = np.empty((m, _KEPT)), np.empty(m, np.uint64)
    for j in range(m):
        p = np.uint64(prefills[j])
        kept[j, _PREFILLED], kept[j, _OTHERS] = terms[p, PREFILLED_S], terms[p, PREFILL_OTHERS]
        kept[j, _SPREAD], kept[j, _HITS] = terms[p, SPREAD], terms[p, HIT_TOKENS]
        ranks[j] = _shuffle(seed, np.uint64(identities[p]))
    return kept, ranks


@kernel
def may_prefill(terms: Terms, question: Floats, slots: Slots) -> NDArray[np.bool_]:
    """Say which of these may get a prompt now: who has a short queue, and who is worth a longer one.

    Where nobody has a short queue the request waits at the router, which can still choose.  Otherwise a queue of up to
    `FURTHER` times HOLD is accepted from those that have more of the prompt than everybody with a short queue: sending
    it elsewhere would compute there what they hold.
    """
    n, longest = slots.shape[0], np.float32(-1.0)
    for i in range(n):
        t = np.uint64(slots[i])
        if terms[t, WAIT_S] <= question[HOLD]:
            longest = max(longest, terms[t, HIT_TOKENS])
    may = np.zeros(n, np.bool_)
    for i in range(n):
        t = np.uint64(slots[i])
        worth = longest >= 0.0 and terms[t, HIT_TOKENS] > longest
        may[i] = terms[t, WAIT_S] <= question[HOLD] or (worth and terms[t, WAIT_S] <= FURTHER * question[HOLD])
    return may


@inline
def _link(  # noqa: PLR0917  # kernels take positional arguments only
    kept: Floats, tags: Slots, prefills: Slots, destination: int, base: Floats, per_token: Floats
) -> None:
    """Note what a transfer to this zone takes from each prefill target."""
    for j in range(prefills.shape[0]):
        source = tags[prefills[j], ZONE]
        kept[j, _BASE], kept[j, _PER_TOKEN] = base[source, destination], per_token[source, destination]


@inline
def _fall_back(row: Floats, prefills: Slots, chosen: Slots) -> None:
    """Write the cheapest other prefill targets behind the chosen one."""
    for place in range(2, min(chosen.shape[0], FALLBACKS + 1)):
        at = -1
        for j in range(prefills.shape[0]):
            if row[j] < np.inf and (at < 0 or row[j] < row[at]):
                at = j
        if at < 0:
            break
        chosen[place] = prefills[at]
        row[at] = np.inf


@kernel
def choose(  # noqa: C901, PLR0912, PLR0915, PLR0917  # one loop nest over registers; calls would spill them
    terms: Terms,
    tags: Slots,
    question: Floats,
    prefills: Slots,
    decodes: Slots,
    base: Floats,
    per_token: Floats,
    identities: NDArray[np.uint64],
    seed: np.uint64,
    chosen: Slots,
) -> tuple[float, float, float]:
    """Write (decode, prefill or -1, fall-backs or -1) to `chosen`; return cost, TTFT and TPOT.

    Costs within the models' own error are a tie: it goes to the longer cached prefix, then to the rendezvous rank.
    `chosen[0]` is -1 when no combination is allowed or nobody has room: the decode
    targets have all the requests they take, or every prefill queue is too long (see `may_prefill`).
    """
    chosen[:] = -1
    n, m = decodes.shape[0], prefills.shape[0]
    kept, ranks = _sources(terms, prefills, identities, seed)
    sources, homes = may_prefill(terms, question, prefills), may_prefill(terms, question, decodes)
    costs = np.full((n, m + 1), np.inf)
    weights, prompt = _weights(question), question[PROMPT]
    alone, paired = question[ALONE] != 0.0, question[PAIRED] != 0.0
    best, best_ttft, spread = np.inf, 0.0, 0.0
    linked = -1
    for i in range(n):
        d = np.uint64(decodes[i])  # unsigned, see `index_kernels`
        if terms[d, WAS_IN_FLIGHT] >= tags[d, MOST_REQUESTS]:
            continue
        tpot = float(terms[d, TPOT_S])
        if alone and tags[d, CAN_PREFILL] != 0 and homes[i]:
            fixed = terms[d, DECODE_COST] + terms[d, PREFILL_OTHERS] + terms[d, STALL_S]
            costs[i, m] = _cost(terms[d, PREFILLED_S] + terms[d, TPOT_S], terms[d, SPREAD], fixed, weights)
            if costs[i, m] < best:
                best, best_ttft, spread = costs[i, m], terms[d, PREFILLED_S] + tpot, terms[d, SPREAD]
        if not paired:
            continue
        if m and tags[d, ZONE] != linked:
            linked = tags[d, ZONE]
            _link(kept, tags, prefills, linked, base, per_token)
        decoding, moved = float(terms[d, DECODE_COST]), max(0.0, prompt - terms[d, HIT_TOKENS])
        for j in range(m):
            if not sources[j] or tags[np.uint64(prefills[j]), REVISION] != tags[d, REVISION]:
                continue
            ttft = kept[j, _PREFILLED] + (kept[j, _BASE] + kept[j, _PER_TOKEN] * moved) + tpot
            costs[i, j] = _cost(ttft, kept[j, _SPREAD], decoding + kept[j, _OTHERS], weights)
            if costs[i, j] < best:
                best, best_ttft, spread = costs[i, j], ttft, kept[j, _SPREAD]
    if best == np.inf:
        return best, 0.0, 0.0
    near = question[NEAR] + question[NEAR_SHARE] * best + 0.5 * question[OWN_LATENCY] * spread * best_ttft
    most, rank = -1.0, np.uint64(0)
    row, column = 0, 0
    for i in range(n):
        d = np.uint64(decodes[i])
        own, held = _shuffle(seed, np.uint64(identities[d])), float(terms[d, HIT_TOKENS])
        for j in range(m + 1):
            if costs[i, j] > best + near:
                continue
            hits = held if j == m else kept[j, _HITS] + held
            shuffled = own + (own if j == m else ranks[j])
            if hits > most or (hits == most and shuffled > rank):
                most, rank, row, column = hits, shuffled, i, j
    d = decodes[row]
    chosen[0] = d
    tpot = float(terms[d, TPOT_S])
    cost = costs[row, column]
    if column == m:
        return cost, terms[d, PREFILLED_S] + tpot, tpot
    chosen[1] = prefills[column]
    costs[row, column] = np.inf
    _fall_back(costs[row], prefills, chosen)
    _link(kept, tags, prefills, tags[d, ZONE], base, per_token)
    moved = max(0.0, prompt - terms[d, HIT_TOKENS])
    return cost, kept[column, _PREFILLED] + (kept[column, _BASE] + kept[column, _PER_TOKEN] * moved) + tpot, tpot
