"""One decision in process, hashing included: `python bench/bench_pick.py [--picks N] [--workers N]`.

8k tokens, half of them cached somewhere, on aggregated workers and on a prefill and a decode pool of half as many each.
Every pick is completed, so the fleet's load stays what a busy router sees.  Percentiles are of wall-clock time; the CPU
time of a pick and of hashing alone stand beside them, since a busy machine shows in the first.  What gRPC adds is in
_pick_stream, which runs last.  The last line is JSON.
"""

import argparse
import json
import time

import numpy as np

from inferplane_api.catalogue import RoutingMode, WorkerRole
from inferplane_api.proto import worker_pb2
from inferplane_router.core.router import RouterCore
from inferplane_router.core.testing import FakeWorker, ask, make_core, prompt, service
from inferplane_router.core.values import Routed, Tokens
from inferplane_runtime.lifecycle import settle_memory

_TOKENS = 8192
_PROMPTS = 64
_IN_FLIGHT = 100


def filled_core(workers: int, mode: RoutingMode) -> RouterCore:
    """Make a core whose workers hold half of some prompt each."""
    fakes = [
        FakeWorker(
            f"w{number}", WorkerRole.PREFILL if number % 2 and mode is not RoutingMode.AGGREGATED else WorkerRole.DECODE
        )
        for number in range(workers)
    ]
    core = make_core(*fakes, services=[service(mode=mode, queue_limit=0)])
    for number, fake in enumerate(fakes):
        half = fake.hashes(prompt(number % _PROMPTS, _TOKENS)[: _TOKENS // 2])
        core.on_worker_message(fake.worker_id, fake.delta(stored=half), 0.0)
    return core


def measure(core: RouterCore, picks: int, prompts: list[Tokens]) -> tuple[list[float], list[float]]:
    """Time picks one by one, in seconds of wall and of CPU; the oldest request of many ends before each."""
    in_force: list[str] = []
    times: list[float] = []
    cpu_times: list[float] = []
    for number in range(picks):
        if len(in_force) >= _IN_FLIGHT:
            core.complete(in_force.pop(0), worker_pb2.OUTCOME_ENGINE_LOST, number * 1e-3)
        question = ask(core, f"r{number}", prompts[number % len(prompts)])
        cpu_began, began = time.thread_time(), time.perf_counter()
        answer = core.pick(question, number * 1e-3)
        times.append(time.perf_counter() - began)
        cpu_times.append(time.thread_time() - cpu_began)
        if not isinstance(answer, Routed):
            raise RuntimeError(f"pick {number} got no place, and a refusal is not what is measured: {answer}")  # noqa: TRY004 - no wrong type of ours
        in_force.append(answer.request_id)
        core.poll(number * 1e-3)
    return times, cpu_times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--picks", type=int, default=5000)
    parser.add_argument("--workers", type=int, default=100)
    options = parser.parse_args()
    prompts = [prompt(number, _TOKENS) for number in range(_PROMPTS)]
    result: dict[str, float] = {}
    for name, mode in (("pick_8k", RoutingMode.AGGREGATED), ("pick_8k_pd", RoutingMode.DISAGGREGATED)):
        core = filled_core(options.workers, mode)
        measure(core, 1000, prompts)
        core = filled_core(options.workers, mode)
        settle_memory()  # as a router does at its start
        wall, cpu = measure(core, options.picks, prompts)
        times = np.array(wall)[_IN_FLIGHT:]
        result[f"{name}_p50_us"] = round(1e6 * float(np.percentile(times, 50)), 1)
        result[f"{name}_p99_us"] = round(1e6 * float(np.percentile(times, 99)), 1)
        result[f"{name}_cpu_p50_us"] = round(1e6 * float(np.percentile(cpu[_IN_FLIGHT:], 50)), 1)
        result.setdefault("picks_per_s", round(1 / float(np.mean(times))))
    fake = FakeWorker("any")
    hashing: list[float] = []
    for number in range(500):
        began = time.thread_time()
        fake.hashes(prompts[number % _PROMPTS])
        hashing.append(time.thread_time() - began)
    from _pick_stream import over_grpc  # noqa: PLC0415 - it fills its core as this module does

    result |= over_grpc(options.picks // 5, options.workers)
    result["hash_8k_cpu_us"] = round(1e6 * float(np.median(hashing)), 1)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
