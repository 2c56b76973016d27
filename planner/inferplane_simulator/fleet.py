"""Workers as they come and go: made, started phase by phase, drained, crashed, started again."""

from collections.abc import Callable
from functools import partial

from inferplane_api.catalogue import Catalogue, CatalogueService, RoutingMode, WorkerRole
from inferplane_api.proto import worker_pb2
from inferplane_engine.identity import KeySpace
from inferplane_simulator.agenda import Agenda
from inferplane_simulator.errors import ScenarioError
from inferplane_simulator.front import MODEL, Front
from inferplane_simulator.scaling import EngineLoad, Staff
from inferplane_simulator.scenario import PoolSpec, Scenario
from inferplane_simulator.streams import Streams
from inferplane_simulator.worker import SERVICE, Stage, Worker


class Fleet:
    """All workers by id; `lost` is called with each one that crashes, once routers know."""

    def __init__(
        self,
        scenario: Scenario,
        agenda: Agenda,
        fronts: list[Front],
        streams: Streams,
        lost: Callable[[Worker, float], None],
    ) -> None:
        self.workers: dict[str, Worker] = {}
        self.key_space = KeySpace(MODEL, "1", scenario.block_tokens)
        self.steps_of_gone = 0
        self.device_s_of_gone = 0.0
        self.scale_events = 0
        self._scenario = scenario
        self._agenda = agenda
        self._fronts = fronts
        self._streams = streams
        self._lost = lost
        self._made = dict.fromkeys(WorkerRole, 0)

    def begin(self) -> None:
        """Make the workers that are there from the beginning, ready; put crashes on the agenda."""
        for pool in self._scenario.pools:
            for _ in range(pool.workers):
                self._make(pool, 0.0)
        self._publish(0.0)
        for worker in self.workers.values():
            self._connect(worker, worker_pb2.PHASE_READY, 0.0)
            worker.stage = Stage.READY
        for crash in self._scenario.crashes:
            if crash.worker not in self.workers:
                names = ", ".join(self.workers)
                raise ScenarioError("crash.worker", f"{crash.worker!r} is unknown", f"use one of {names}")
            self._agenda.put(crash.at_s, partial(self._crash, crash.worker, crash.down_s))

    def count(self, role: WorkerRole, *stages: Stage) -> int:
        return sum(worker.pool.role is role and worker.stage in stages for worker in self.workers.values())

    def staff(self, role: WorkerRole, queued: int) -> Staff:
        """Return a role's workers as a scaler sees them."""
        ready = [each for each in self.workers.values() if each.pool.role is role and each.stage is Stage.READY]
        gauges = [worker.engine.gauges() for worker in ready]
        return Staff(
            ready=len(ready),
            starting=self.count(role, Stage.STARTING, Stage.DOWN),
            engines=tuple(EngineLoad(each.running, each.waiting, each.kv_usage) for each in gauges),
            queued=queued,
        )

    @property
    def devices(self) -> int:
        return sum(worker.pool.devices for worker in self.workers.values())

    def device_s(self, now: float) -> float:
        """Return how long accelerators were taken, added up."""
        here = sum(worker.pool.devices * (now - worker.created_s) for worker in self.workers.values())
        return self.device_s_of_gone + here

    @property
    def steps(self) -> int:
        return self.steps_of_gone + sum(worker.engine.gauges().steps for worker in self.workers.values())

    def resize(self, role: WorkerRole, wanted: int, now: float) -> None:
        """Start workers, or drain those with least to do."""
        pool = self._scenario.pool(role)
        if pool is None:
            raise ScenarioError(f"{role}.workers", "has no pool", "name the pool in the scenario")
        here = [each for each in self.workers.values() if each.pool.role is role and each.stage is not Stage.DRAINING]
        if len(here) != wanted:
            self.scale_events += 1
        for _ in range(wanted - len(here)):
            self._start(self._make(pool, now), now)
        leaving = sorted(here, key=lambda each: (each.stage is Stage.READY, len(each.journeys), each.worker_id))
        for worker in leaving[: max(0, len(here) - wanted)]:
            self._drain(worker, now)

    def left(self, worker: Worker, now: float) -> None:
        """Let a draining worker go that has nothing to do any more."""
        if worker.stage is not Stage.DRAINING or worker.journeys:
            return
        worker.stage = Stage.GONE
        del self.workers[worker.worker_id]
        self.steps_of_gone += worker.engine.gauges().steps
        self.device_s_of_gone += worker.pool.devices * (now - worker.created_s)
        self._publish(now)

    # Inside ------------------------------------------------------------------------------------------------------

    def _make(self, pool: PoolSpec, now: float) -> Worker:
        number = self._made[pool.role]
        self._made[pool.role] += 1
        worker = Worker(f"{pool.role.value}-{number}", pool, self._scenario.engine(pool), self.key_space, now)
        self.workers[worker.worker_id] = worker
        return worker

    def _start(self, worker: Worker, now: float) -> None:
        """Let a worker begin its start, and become ready when all phases are over."""
        self._publish(now)
        worker.stage = Stage.STARTING
        self._connect(worker, worker_pb2.PHASE_STARTING, now)
        given = self._scenario.start_up_s
        takes_s = worker.pool.profile.start_up.total_s if given is None else given
        self._agenda.put(now + takes_s, partial(self._ready, worker, worker.starts))

    def _ready(self, worker: Worker, start: int, now: float) -> None:
        del now
        if worker.stage is Stage.STARTING and worker.starts == start:
            worker.stage = Stage.READY
            self._streams.tell(worker, [worker.agent.status(worker_pb2.PHASE_READY)])

    def _drain(self, worker: Worker, now: float) -> None:
        worker.stage = Stage.DRAINING
        self._streams.tell(worker, [worker.agent.status(worker_pb2.PHASE_DRAINING)])
        self.left(worker, now)

    def _crash(self, name: str, down_s: float, now: float) -> None:
        worker = self.workers.get(name)
        if worker is None or worker.stage is Stage.DOWN:
            return
        worker.stage = Stage.DOWN
        worker.engine.die("crashed", now)
        self._agenda.put(now + self._scenario.delays.lost_s, partial(self._notice, worker))
        self._agenda.put(now + self._scenario.delays.lost_s + down_s, partial(self._again, worker))

    def _notice(self, worker: Worker, now: float) -> None:
        for front in self._fronts:
            front.core.worker_lost(worker.worker_id, now)
        self._lost(worker, now)

    def _again(self, worker: Worker, now: float) -> None:
        self.steps_of_gone += worker.engine.gauges().steps
        worker.start_engine()
        self._start(worker, now)

    def _connect(self, worker: Worker, phase: worker_pb2.Phase, now: float) -> None:
        opening = [worker.agent.identity(worker.config.max_model_len), worker.agent.status(phase)]
        self._streams.connect(worker, opening, now)

    def _publish(self, now: float) -> None:
        """Tell every replica who there is."""
        scenario = self._scenario
        service = CatalogueService(
            name=SERVICE,
            served_names=(MODEL,),
            mode=scenario.mode if scenario.pool(WorkerRole.PREFILL) else RoutingMode.AGGREGATED,
            policy=scenario.policy,
            ttft_s=scenario.slo.ttft_s,
            tpot_s=scenario.slo.tpot_s,
            percentile=scenario.slo.percentile,
            queue_limit=scenario.queue_limit,
            queue_timeout_s=scenario.queue_timeout_s,
        )
        workers = tuple(worker.entry() for worker in self.workers.values())
        for front in self._fronts:
            front.follow(Catalogue(services=(service,), workers=workers), now)
