"""Fewest requests in flight; equal ones take turns by the prompt's seed, never by the smallest number."""

from typing import ClassVar

import numpy as np

from inferplane_router.core import score_kernels as kernels
from inferplane_router.core.placing import Choice, View
from inferplane_router.core.plugins.pairing import combine
from inferplane_router.core.score_kernels import Slots


class LeastRequest:
    name: ClassVar[str] = "least-request"

    def pick(self, view: View) -> Choice | None:
        return combine(view, order=lambda slots: _by_requests(view, slots))


def _by_requests(view: View, slots: Slots) -> Slots:
    in_flight = view.fleet.load.rows[slots, kernels.IN_FLIGHT] + view.fleet.load.rows[slots, kernels.WAITING]
    shuffled = (view.fleet.identities[slots] ^ view.seed) * np.uint64(0x9E3779B97F4A7C15)
    return slots[np.lexsort((shuffled, in_flight))]
