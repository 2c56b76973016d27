"""Agents hear of coming blocks soon, in order, each of them once, and in few messages."""

import asyncio

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from inferplane_api.proto import worker_pb2 as wire
from inferplane_router.core.values import Expectation
from inferplane_router.gateway.announcing import Announcements

moments = st.lists(st.lists(st.sampled_from(["w0", "w1", "w2"]), min_size=1, max_size=8), max_size=4)
"""Who is expected to store something, in the order of routing, moment by moment."""


def expectation(worker_id: str, number: int) -> Expectation:
    return Expectation(worker_id, number % 3, np.array([number, number + 1], np.uint64))


async def told_of(given_moments: list[list[str]]) -> list[list[tuple[str, wire.Expects]]]:
    """Announce each moment's expectations, numbered through, and return what was told by its end."""
    told = asyncio.Queue[tuple[str, wire.Expects]]()
    announcements = Announcements(lambda worker_id, expects: told.put_nowait((worker_id, expects)), gather_s=0.0)
    number, heard = 0, list[list[tuple[str, wire.Expects]]]()
    for moment in given_moments:
        for worker_id in moment:
            announcements.announce(f"r{number}", expectation(worker_id, number))
            number += 1
        assert told.empty()
        heard.append([await told.get() for _ in set(moment)])
    return heard


@given(moments)
def test_each_worker_is_told_all_of_a_moment_in_one_message(given_moments: list[list[str]]) -> None:
    heard = asyncio.run(told_of(given_moments))

    number = 0
    for moment, told in zip(given_moments, heard, strict=True):
        due = {worker_id: wire.Expects() for worker_id in moment}
        for worker_id in moment:
            hashes = number.to_bytes(8, "little") + (number + 1).to_bytes(8, "little")
            due[worker_id].expects.add(request_id=f"r{number}", dp_rank=number % 3, hashes=hashes)
            number += 1
        assert dict(told) == due
        assert len(told) == len(due)


def test_a_worker_that_cannot_be_told_keeps_the_others_news_from_nobody() -> None:
    heard = asyncio.Queue[str]()

    def tell(worker_id: str, _: wire.Expects) -> None:
        if worker_id == "gone":
            raise RuntimeError("no stream")
        heard.put_nowait(worker_id)

    async def scenario() -> list[str]:
        announcements = Announcements(tell, gather_s=0.0)
        for number, worker_id in enumerate(["w0", "gone", "w1"]):
            announcements.announce(f"r{number}", expectation(worker_id, number))
        return [await heard.get(), await heard.get()]

    assert asyncio.run(scenario()) == ["w0", "w1"]
