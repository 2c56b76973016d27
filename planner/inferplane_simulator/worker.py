"""One worker: an engine, its agent, and where it is in its life."""

from dataclasses import dataclass, field
from enum import StrEnum

from inferplane_api.catalogue import CatalogueWorker
from inferplane_engine.identity import KeySpace
from inferplane_engine.sim.config import EngineConfig
from inferplane_engine.sim.events import EngineRequest, Outline, RemoteSource
from inferplane_engine.sim.outlined import OutlinedEngine
from inferplane_simulator.agenda import Action
from inferplane_simulator.agent import Agent
from inferplane_simulator.journey import Journey
from inferplane_simulator.scenario import PoolSpec

SERVICE = "service"


class Stage(StrEnum):
    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"
    DOWN = "down"
    """Crashed, and not started again yet."""
    GONE = "gone"


@dataclass(slots=True, eq=False)
class Worker:
    """`journeys` are the requests that it has, by name."""

    worker_id: str
    pool: PoolSpec
    config: EngineConfig
    key_space: KeySpace
    created_s: float
    stage: Stage = Stage.STARTING
    starts: int = 0
    engine: OutlinedEngine = field(init=False)
    agent: Agent = field(init=False)
    journeys: dict[str, Journey] = field(default_factory=dict[str, Journey])
    due_s: float | None = None
    """When its engine is on the agenda."""
    wake: Action | None = None
    """What the agenda holds for that time: one for all times, since there may be thousands."""
    gone_s: float | None = None

    def __post_init__(self) -> None:
        self.start_engine()

    def start_engine(self) -> None:
        """Begin with an empty cache and a new epoch."""
        self.starts += 1
        self.engine = OutlinedEngine(self.config, self.pool.profile)
        self.agent = Agent(
            self.worker_id,
            self.pool,
            key_space=self.key_space,
            epoch=self.starts,
            kv_blocks=self.config.blocks - 1,
        )
        self.due_s = None

    @property
    def speaks(self) -> bool:
        return self.stage not in (Stage.DOWN, Stage.GONE)

    @property
    def takes_requests(self) -> bool:
        return self.stage in (Stage.READY, Stage.DRAINING)

    def submit(self, journey: Journey, now: float, *, hold: bool = False, source: RemoteSource | None = None) -> None:
        """Give a request to the engine; `hold`: compute the prompt only and keep its blocks for the decode worker."""
        self.engine.submit(
            EngineRequest(
                request_id=journey.name,
                prompt=(),
                max_tokens=1 if hold else journey.request.output_tokens,
                ignore_eos=True,
                hold=hold,
                source=source,
                outline=Outline(journey.prompt_tokens, journey.hashes),
            ),
            now,
        )

    def entry(self) -> CatalogueWorker:
        role = self.pool.role
        return CatalogueWorker(
            worker_id=self.worker_id,
            service=SERVICE,
            pool=role.value,
            role=role,
            revision="1",
            http_address=self.worker_id,
            stream_address=self.worker_id,
            zone=self.pool.zone,
        )
