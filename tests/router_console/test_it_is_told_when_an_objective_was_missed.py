"""The last stretch in which streams were late, found in the samples that a console keeps."""

from collections.abc import Sequence

import pytest

from inferplane_router.console.history import SAMPLE_S
from inferplane_router.console.misses import last_missed

Counts = tuple[int, int]
WELL, BAD, IDLE = (10, 0), (5, 5), (0, 0)


def moments(ttft: Sequence[Counts]) -> list[dict[str, float]]:
    return [
        {"at": 100 + SAMPLE_S * number, "ttft_met": met, "ttft_missed": missed, "tpot_met": 10, "tpot_missed": 1}
        for number, (met, missed) in enumerate(ttft)
    ]


@pytest.mark.parametrize(
    ("ttft", "expected"),
    [
        pytest.param([], None, id="nothing yet"),
        pytest.param([WELL, (9, 1), IDLE], None, id="a tenth may be late"),
        pytest.param([WELL, BAD, BAD], (100, 110, 0.5, True), id="still"),
        pytest.param([BAD, WELL, BAD, WELL], (95, 110, 20 / 30, True), id="not over at once"),
        pytest.param([BAD, *[WELL] * 6], (95, 100, 0.5, False), id="over after half a minute"),
        pytest.param([BAD, *[WELL] * 9, (0, 9)], (145, 150, 0.0, True), id="the last of two"),
        pytest.param([BAD, *[IDLE] * 9], (95, 100, 0.5, False), id="nobody asks any more"),
    ],
)
def test_the_last_stretch_is_told(ttft: Sequence[Counts], expected: tuple[float, float, float, bool] | None) -> None:
    found = last_missed(moments(ttft))

    told = found["ttft"]
    seen = None if told is None else (told["began"], told["ended"], pytest.approx(told["met"]), told["lasts"])
    assert (seen, found["tpot"]) == (expected, None)
