"""One router replica: the production core, fed by its own copies of the workers' streams."""

from dataclasses import dataclass, field
from random import Random

from inferplane_api.catalogue import Catalogue
from inferplane_api.proto.worker_pb2 import OUTCOME_ENGINE_LOST, OUTCOME_OK, WorkerMessage
from inferplane_router.core.cost import CostSettings
from inferplane_router.core.router import RouterCore
from inferplane_router.core.values import Answer, Queued, Refused, ResolvedModel, Routed
from inferplane_simulator.agent import Agent
from inferplane_simulator.errors import ScenarioError
from inferplane_simulator.journey import Journey
from inferplane_simulator.scenario import Policies

MODEL = "model"


@dataclass(slots=True)
class Front:
    """A replica by number; its epoch is that number and one."""

    number: int
    seed: int
    policies: Policies
    cost: CostSettings = field(default_factory=CostSettings)
    core: RouterCore = field(init=False)
    waiting: dict[str, Journey] = field(default_factory=dict[str, Journey])
    """Requests in its queue."""
    polled_s: float = 0.0

    def __post_init__(self) -> None:
        rng = Random(self.seed * 1009 + self.number)  # noqa: S311  # reproducible, not secret
        self.core = RouterCore(
            epoch=self.epoch, rng=rng, wall_clock=lambda: 0.0, policies=self.policies, cost=self.cost
        )

    @property
    def epoch(self) -> int:
        return self.number + 1

    def follow(self, catalogue: Catalogue, now: float) -> None:
        self.core.apply_catalogue(catalogue, now)

    def resolve(self) -> ResolvedModel:
        model = self.core.resolve_model(MODEL)
        if not isinstance(model, ResolvedModel):
            raise ScenarioError("catalogue", "has no service", "name the one that is simulated")
        return model

    def pick(self, journey: Journey, now: float) -> Answer:
        answer = self.core.pick(journey.ask, now)
        if isinstance(answer, Queued):
            self.waiting[journey.name] = journey
        return answer

    def retry(self, journey: Journey, failed_worker: str, now: float) -> Answer:
        answer = self.core.retry(journey.name, failed_worker, now)
        if isinstance(answer, Queued):
            self.waiting[journey.name] = journey
        return answer

    def hear(self, agent: Agent, messages: list[WorkerMessage], now: float) -> None:
        """Take messages of one worker's stream."""
        for message in messages:
            resync = self.core.on_worker_message(agent.worker_id, agent.numbered(message, self.number), now)
            if resync is not None:
                raise RuntimeError(f"stream of {agent.worker_id}: {resync.reason}")

    def poll(self, now: float) -> list[tuple[Journey, Routed | Refused]]:
        """Return whose waiting has come to an end."""
        self.polled_s = now
        return [(self.waiting.pop(name), answer) for name, answer in self.core.poll(now) if name in self.waiting]

    def give_up(self, journey: Journey, now: float) -> None:
        self.waiting.pop(journey.name, None)
        self.core.complete(journey.name, OUTCOME_ENGINE_LOST, now)

    def complete(self, journey: Journey, now: float) -> None:
        self.core.complete(journey.name, OUTCOME_OK, now)
