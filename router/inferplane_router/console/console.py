"""The console of one router process: it takes samples while the process lives, and answers pages from them."""

from collections.abc import Callable
from typing import Final

from inferplane_router.console.history import History, Tally
from inferplane_router.console.pages import Pages
from inferplane_router.console.picture import Document, picture, sample
from inferplane_router.core.router import RouterCore
from inferplane_router.gateway.meters import GatewayMeters, ServiceMeters
from inferplane_runtime.clock import Clock
from inferplane_runtime.http.api import Response

SAMPLE_S: Final = 5.0
_DECISIONS: Final = 40


class Console:
    """Has the last hour, and shows it."""

    def __init__(self, core: RouterCore, meters: GatewayMeters, clock: Clock, unready: Callable[[], str]) -> None:
        self._core = core
        self._meters = meters
        self._clock = clock
        self._unready = unready
        self._history = History()
        self._sampled = float("-inf")
        self._pages = Pages(picture=self.picture, explain=core.explain)

    def answer(self, path: bytes) -> Response | None:
        """Answer a request's path; None where it is none of ours."""
        return self._pages.answer(path)

    def keep_sampling(self, now: float) -> None:
        """Take a sample where the last one is old enough; to be called often."""
        if now - self._sampled >= SAMPLE_S:
            self._sampled = now
            tallies = {it.service: _tally(it) for it in self._meters.services()}
            self._history.add(sample(self._core.statistics(), tallies, self._clock.wall()))

    def picture(self) -> Document:
        decisions = self._core.recent(_DECISIONS)
        return picture(self._core.statistics(), self._history, decisions, unready=self._unready())


def _tally(meters: ServiceMeters) -> Tally:
    return Tally(
        ttft_met=meters.streams("ttft", met=True),
        ttft_missed=meters.streams("ttft", met=False),
        tpot_met=meters.streams("tpot", met=True),
        tpot_missed=meters.streams("tpot", met=False),
        ttft=tuple(meters.ttft.counts),
        tpot=tuple(meters.tpot.counts),
    )
