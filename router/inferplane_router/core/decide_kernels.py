"""A whole decision of the kv-aware policy in one call: pose the question, appraise the targets, choose among them.

Problem: to a kernel of microseconds its caller's part is dear: a tenth of a microsecond for each array, as much for
each number that is written into an array from Python, and more for what is read back.  Idea: what all decisions share
comes as few arrays, what one request asks comes as plain numbers, and what it needs to know comes back as numbers too.
The arrays that explain the decision are filled on the way, and read when somebody asks.
Invariant: `decide` finds what `pose`, `appraise` and `choose` find one by one, since it calls them.
"""

import numpy as np
from numpy.typing import NDArray

from inferplane_engine.compiled import kernel
from inferplane_router.core.score_kernels import (
    ALONE,
    FALLBACKS,
    HOLD,
    OUTPUT,
    PAIRED,
    PROMPT,
    TPOT,
    TTFT,
    WEIGHT,
    Floats,
    Slots,
    Terms,
    appraise,
    choose,
)

Numbers = tuple[float, float, float, float, float, float, bool, bool]
"""Tokens of the prompt and, expected, of the answer; limits of TTFT and TPOT in seconds; weight of
a miss; longest wait for a prefill in seconds; whether hand-offs, and whether answering alone, are allowed."""
Verdict = tuple[int, int, int, int, float, float]
"""Slots of the decode target and of up to three prefill targets, -1 for none, then TTFT and TPOT in seconds."""


@kernel
def pose(settings: Floats, numbers: Numbers, question: Floats) -> None:
    """Fill `question` with what the settings say and what this request asks."""
    question[:] = settings
    question[PROMPT], question[OUTPUT] = numbers[0], numbers[1]
    question[TTFT], question[TPOT] = numbers[2], numbers[3]
    question[WEIGHT], question[HOLD] = numbers[4], numbers[5]
    question[PAIRED], question[ALONE] = numbers[6], numbers[7]


@kernel
def decide(  # noqa: PLR0917  # kernels take positional arguments only
    counts: NDArray[np.int32],
    speeds: Floats,
    load: Floats,
    tags: Slots,
    identities: NDArray[np.uint64],
    links: Floats,
    settings: Floats,
    asked: Slots,
    prefills: int,
    numbers: Numbers,
    seed: np.uint64,
    question: Floats,
    terms: Terms,
) -> Verdict:
    """Decide over the slots in `asked`, the first `prefills` of which may only prefill."""
    pose(settings, numbers, question)
    appraise(counts, speeds, load, tags, question, asked, terms)
    chosen = np.empty(FALLBACKS + 1, np.int64)
    _, ttft, tpot = choose(
        terms, tags, question, asked[:prefills], asked[prefills:], links[0], links[1], identities, seed, chosen
    )
    return chosen[0], chosen[1], chosen[2], chosen[3], ttft, tpot
