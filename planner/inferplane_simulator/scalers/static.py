"""`static`: as many workers as the peak takes, all the time."""

from collections.abc import Mapping
from dataclasses import dataclass

from inferplane_api.catalogue import WorkerRole
from inferplane_simulator.scaling import Served, Staff


@dataclass(slots=True)
class Static:
    workers: Mapping[WorkerRole, int]
    period_s: float = 60.0

    def arrived(self, at_s: float) -> None:
        """Hear nothing."""

    def served(self, answer: Served) -> None:
        """Hear nothing."""

    def plan(self, staff: Mapping[WorkerRole, Staff], now: float) -> Mapping[WorkerRole, int]:
        del now
        return {role: self.workers[role] for role in staff}
