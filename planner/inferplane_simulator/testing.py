"""Small scenarios and written-out workloads for tests."""

from collections.abc import Sequence

from inferplane_api.catalogue import WorkerRole
from inferplane_engine.profiles import CPU_TEST
from inferplane_planner.workload import Piece, Prompt, Request
from inferplane_simulator.scenario import PoolSpec


def pool(workers: int, role: WorkerRole = WorkerRole.DECODE) -> PoolSpec:
    return PoolSpec(role, workers, CPU_TEST, max_num_seqs=64, max_num_batched_tokens=2048)


def apart(prefill: int, decode: int) -> tuple[PoolSpec, ...]:
    """Make a prefill and a decode pool."""
    return pool(prefill, WorkerRole.PREFILL), pool(decode)


class Written:
    """A workload of given requests; remembers which were answered, and when."""

    def __init__(self, requests: Sequence[Request]) -> None:
        self._left = list(requests)
        self.finished_at: dict[int, float] = {}

    def peek(self) -> float | None:
        return self._left[0].at_s if self._left else None

    def take(self) -> Request:
        return self._left.pop(0)

    def finished(self, request: Request, at_s: float) -> None:
        self.finished_at[request.number] = at_s


def request(number: int, at_s: float, *pieces: tuple[int, int], output: int = 20) -> Request:
    """Write a request out of (name, tokens) pieces."""
    return Request(number, at_s, Prompt(tuple(Piece(name, tokens) for name, tokens in pieces)), output)
