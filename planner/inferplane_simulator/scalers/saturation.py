"""`wva`: spare KV and spare queue of workers that are not saturated, after llm-d's workload-variant autoscaler.

Source: llm-d's description of its saturation engine: a worker is saturated from 80 % of its KV or 5 waiting requests
on; one more when the mean spare KV of the others is below a tenth or their spare queue below 3; one fewer when what
remains would have both to spare after the load was spread again; nothing while a worker starts.
"""

from dataclasses import dataclass

from inferplane_simulator.scaling import EngineLoad, Staff

PERIOD_S = 60.0


@dataclass(slots=True)
class Saturation:
    kv: float = 0.8
    queue: float = 5.0
    spare_kv: float = 0.1
    spare_queue: float = 3.0

    def wanted(self, staff: Staff, now: float) -> int:
        del now
        if staff.starting or not staff.engines:
            return max(1, staff.wanted)
        fresh = [each for each in staff.engines if each.kv_use < self.kv and each.waiting < self.queue]
        if not fresh or not self._spare(fresh, len(fresh)):
            return staff.ready + 1
        fewer = len(fresh) - 1
        return staff.ready - 1 if fewer > 0 and self._spare(fresh, fewer) else staff.ready

    def _spare(self, engines: list[EngineLoad], workers: int) -> bool:
        """Say whether so many workers would have enough to spare under the load of these."""
        kv = self.kv - sum(each.kv_use for each in engines) / workers
        queue = self.queue - sum(each.waiting for each in engines) / workers
        return kv >= self.spare_kv and queue >= self.spare_queue
