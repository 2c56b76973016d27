"""A sizing as a fleet that can be run: what was predicted by formulas, checked by playing it."""

from inferplane_api.catalogue import RoutingMode, WorkerRole
from inferplane_planner.core.contract import Spec
from inferplane_planner.core.predict import Candidate
from inferplane_planner.core.solve import Bounds
from inferplane_planner.core.times import EngineTimes
from inferplane_simulator.scenario import PoolSpec, Scenario, Slo


def fleet_of(spec: Spec, candidate: Candidate, *, block_tokens: int = 64) -> Scenario:
    """Return the fleet that a candidate means, with the engines as they are known before anything is observed."""
    pools = [_pool(WorkerRole.DECODE, candidate.decode, spec.prior.decode, spec.decode)]
    if spec.prefill is not None and candidate.disaggregated:
        pools.insert(0, _pool(WorkerRole.PREFILL, candidate.prefill, spec.prior.prefill, spec.prefill))
    return Scenario(
        tuple(pools),
        slo=Slo(spec.objective.ttft_s, spec.objective.tpot_s),
        mode=RoutingMode.DISAGGREGATED if candidate.disaggregated else RoutingMode.AGGREGATED,
        block_tokens=block_tokens,
        start_up_s=spec.start_up_s,
    )


def _pool(role: WorkerRole, workers: int, times: EngineTimes, bounds: Bounds) -> PoolSpec:
    return PoolSpec(
        role,
        workers,
        times.profile,
        max_num_seqs=times.max_sequences,
        max_num_batched_tokens=times.chunk_tokens,
        devices=bounds.devices,
    )
