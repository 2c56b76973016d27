"""Our baselines beside the package that each is named after: asked in its state, and then led where it went.

The routers' own core is fed, with a policy that rates the workers, is compared, and then takes the worker that the
package took; so one decision that differs does not make all later ones differ.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from inferplane_api.catalogue import RoutingMode
from inferplane_api.proto import worker_pb2
from inferplane_router.core.placing import Choice, View
from inferplane_router.core.score_kernels import Floats, Slots
from inferplane_router.core.testing import FakeWorker, ask, finished, make_core, service
from inferplane_router.core.testing import accepted as accepted_entry
from inferplane_router.core.values import Routed
from inferplane_simulator.policies.remembered import names_of

Tokens = NDArray[np.int32]
_MANY = 100_000


class Rating(Protocol):
    """A policy in two halves: which is best (the least), and what is remembered of where these blocks went."""

    def score(self, view: View, slots: Slots, names: list[int]) -> Floats: ...

    def sent(self, view: View, slot: int, names: list[int]) -> None: ...


@dataclass
class Led:
    """The policy that the core has: rates, is compared with `leader`, and follows it."""

    name: ClassVar[str] = "led"
    rating: Rating
    leader: str = ""
    agreed: list[bool] = field(default_factory=list[bool])
    alone: list[bool] = field(default_factory=list[bool])
    """Whether exactly one worker was rated best."""

    def pick(self, view: View) -> Choice | None:
        names = names_of(view)
        rated = self.rating.score(view, view.decodes, names)
        slot = next(each for each in view.decodes.tolist() if _name(view, each) == self.leader)
        best = view.decodes[rated == rated.min()]
        self.agreed.append(slot in best.tolist())
        self.alone.append(best.shape[0] == 1)
        self.rating.sent(view, slot, names)
        return Choice(slot, (), 0.0, 0.0)


def _name(view: View, slot: int) -> str:
    ref = view.appraisal.refs[slot]
    return "" if ref is None else ref.worker_id


class Ours:
    """`stores`: workers say at once that they hold what was sent to them, as whoever goes by guesses believes."""

    def __init__(self, rating: Rating, workers: int, *, block: int, stores: bool) -> None:
        self.led = Led(rating)
        self._stores = stores
        self._workers = [FakeWorker(f"w{number}", block_size=block, max_num_seqs=_MANY) for number in range(workers)]
        chat = service(mode=RoutingMode.AGGREGATED, policy=Led.name, queue_limit=0, ttft_s=1e6)
        self._core = make_core(*self._workers, services=(chat,), policies={Led.name: lambda: self.led})
        self._at: dict[int, FakeWorker] = {}

    def came(self, number: int, tokens: Tokens, leader: int, now: float) -> None:
        worker = self._at[number] = self._workers[leader]
        self.led.leader = worker.worker_id
        answer = self._core.pick(ask(self._core, f"r{number}", tokens), now)
        if not isinstance(answer, Routed):
            raise TypeError(f"request {number} was not placed: {answer}")
        if self._stores:
            self._tell(worker, worker.delta(stored=worker.hashes(tokens)), now)

    def prefilled(self, number: int, now: float) -> None:
        worker, entry = self._at[number], accepted_entry(f"r{number}")
        entry.phase = worker_pb2.LOAD_PHASE_PREFILL_DONE
        entry.prompt_tokens = entry.uncached_tokens = 0  # what was expected stays
        self._tell(worker, worker.load(entry), now)

    def ended(self, number: int, now: float) -> None:
        worker = self._at.pop(number)
        self._tell(worker, worker.load(finished(f"r{number}")), now)
        self._core.complete(f"r{number}", worker_pb2.OUTCOME_OK, now)

    def _tell(self, worker: FakeWorker, message: worker_pb2.WorkerMessage, now: float) -> None:
        if (resync := self._core.on_worker_message(worker.worker_id, message, now)) is not None:
            raise RuntimeError(f"{worker.worker_id}: {resync.reason}")
