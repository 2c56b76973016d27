"""Workers' words on their way to the router replicas: in order, each late by the same time."""

from collections.abc import Callable
from functools import partial

from inferplane_api.proto.worker_pb2 import WorkerMessage
from inferplane_router.core.values import Expectation
from inferplane_simulator.agenda import Agenda
from inferplane_simulator.agent import Agent, expected
from inferplane_simulator.front import Front
from inferplane_simulator.journey import Journey
from inferplane_simulator.worker import Worker

_POLL_EVERY_S = 0.05
"""A router with a queue looks at it after every word; here no more often than this: a look costs as much as a pick."""


class Streams:
    """One stream from every worker to every replica."""

    def __init__(
        self, agenda: Agenda, fronts: list[Front], late_s: float, poll: Callable[[Front, float], None]
    ) -> None:
        self._agenda = agenda
        self._fronts = fronts
        self._late_s = late_s
        self._poll = poll

    def connect(self, worker: Worker, opening: list[WorkerMessage], now: float) -> None:
        """Begin a worker's streams; what it says first is heard at once."""
        for front in self._fronts:
            front.core.worker_connected(worker.worker_id, now)
            front.hear(worker.agent, opening, now)

    def say(self, worker: Worker) -> None:
        """Send off what the worker's agent has to say."""
        messages = worker.agent.take()
        if messages:
            self._agenda.put(self._agenda.now + self._late_s, partial(self._hear, worker, worker.agent, messages))

    def tell(self, worker: Worker, messages: list[WorkerMessage]) -> None:
        """Send off messages that the agent did not have yet."""
        self._agenda.put(self._agenda.now + self._late_s, partial(self._hear, worker, worker.agent, messages))

    def announce(self, worker: Worker, journey: Journey, expectations: tuple[Expectation, ...]) -> None:
        """Tell the replicas that did not send a request which blocks it will store."""
        if len(self._fronts) == 1:
            return
        for each in expectations:
            if each.worker_id == worker.worker_id:
                message = expected(journey.name, each.hashes)
                heard = partial(self._hear_of_others, worker, worker.agent, message, journey.router)
                self._agenda.put(self._agenda.now + self._late_s, heard)

    def _hear(self, worker: Worker, agent: Agent, messages: list[WorkerMessage], now: float) -> None:
        if worker.agent is not agent or not worker.speaks:
            return
        for front in self._fronts:
            front.hear(agent, messages, now)
            if front.waiting and now - front.polled_s >= _POLL_EVERY_S:
                self._poll(front, now)

    def _hear_of_others(self, worker: Worker, agent: Agent, message: WorkerMessage, router: int, now: float) -> None:
        if worker.agent is not agent or not worker.speaks:
            return
        for front in self._fronts:
            if front.number != router:
                front.hear(agent, [message], now)
