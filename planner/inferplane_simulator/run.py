"""The loop: requests arrive, routers pick, engines compute, answers end."""

from collections.abc import Callable
from functools import partial
from typing import Final

import numpy as np

from inferplane_api.catalogue import WorkerRole
from inferplane_api.proto import worker_pb2
from inferplane_engine.identity import hash_blocks, seed
from inferplane_engine.sim.events import Event, Finished, FinishReason, KeysChanged, PullWanted, RemoteSource, Tokens
from inferplane_planner.workload import Piece, Request, Workload
from inferplane_planner.workload.shapes import UNHEARD, named
from inferplane_router.core.values import Answer, Ask, Refused, ResolvedModel, Routed
from inferplane_simulator import wording
from inferplane_simulator.agenda import Agenda
from inferplane_simulator.fleet import Fleet
from inferplane_simulator.front import Front
from inferplane_simulator.ideal import IdealCache
from inferplane_simulator.journey import End, Journey
from inferplane_simulator.links import Links
from inferplane_simulator.measures import Measures
from inferplane_simulator.outcome import Frame, Outcome, outcome_of
from inferplane_simulator.scaling import Scaler, Served
from inferplane_simulator.scenario import Scenario
from inferplane_simulator.streams import Streams
from inferplane_simulator.worker import Worker

_LOOK_EVERY_S: Final = 1.0
_POLL_EVERY_S: Final = 0.5


class Simulation:
    """One run; `scaler` changes the number of workers while it goes."""

    def __init__(self, scenario: Scenario, workload: Workload, *, scaler: Scaler | None = None) -> None:
        self.measures = Measures(scenario.slo, scenario.warm_up_s)
        self.agenda = Agenda()
        self._scenario = scenario
        self._workload = workload
        self._scaler = scaler
        self._fronts = [
            Front(number, scenario.seed, scenario.policies, scenario.cost) for number in range(scenario.routers)
        ]
        self._streams = Streams(self.agenda, self._fronts, scenario.delays.report_s, self._poll)
        self.fleet = Fleet(scenario, self.agenda, self._fronts, self._streams, self._worker_lost)
        self._links = Links()
        self._ideal = IdealCache()
        self._seed = seed(self.fleet.key_space)
        self._blank = np.zeros(scenario.longest, np.int32)
        """Stands for every prompt: whoever is given a prompt's hashes looks at its length only."""
        self._open: dict[str, Journey] = {}
        self._last_arrival_s = 0.0
        self._models: list[ResolvedModel] = []

    def run(self, watch: Callable[[float], None] | None = None) -> Outcome:
        """Run to the end; `watch` is told the time once a simulated second."""
        self.fleet.begin()
        self._models = [front.resolve() for front in self._fronts]
        self._repeat(_LOOK_EVERY_S, partial(self._look, watch))
        self._repeat(_POLL_EVERY_S, self._poll_all)
        if self._scaler is not None:
            self._repeat(self._scaler.period_s, partial(self._scale, self._scaler))
        while self._go_on():
            pass
        return self._outcome()

    def _go_on(self) -> bool:
        """Do what comes next; False: nothing is left to do."""
        arrival, due = self._next_arrival(), self.agenda.next_at()
        if due is None:
            raise RuntimeError("the agenda ran out, though something repeats for ever")
        if arrival is not None and arrival <= due:
            self._arrive(self._workload.take(), self.agenda.reach(arrival))
            return True
        if arrival is None and (not self._open or due > self._last_arrival_s + self._scenario.drain_s):
            return False
        self.agenda.run_next()
        return True

    def _next_arrival(self) -> float | None:
        at_s = self._workload.peek()
        return None if at_s is None or at_s > self._scenario.duration_s else at_s

    # Requests ----------------------------------------------------------------------------------------------------

    def _arrive(self, request: Request, now: float) -> None:
        self._last_arrival_s = now
        journey = self._journey(request)
        self.measures.begin(journey)
        if self._scaler is not None:
            self._scaler.arrived(now)
        self._open[journey.name] = journey
        if journey.prompt_tokens >= self._scenario.longest:
            self._end(journey, End.TOO_LONG)
            return
        self._take_answer(journey, self._fronts[journey.router].pick(journey, now), now)

    def _journey(self, request: Request) -> Journey:
        name, router = f"r{request.number}", request.number % len(self._fronts)
        answer = Piece(request.answer or named(UNHEARD, request.number), request.output_tokens)
        tokens = request.prompt.followed_by(answer).token_ids()
        size, length = self._scenario.block_tokens, tokens.shape[0] - request.output_tokens
        hashes = hash_blocks(tokens, size, self._seed)
        known = {self._seed: hashes[: length // size]}
        ask = Ask(name, self._models[router], self._blank[:length], priority=request.priority, hashes=known)
        ideal = self._ideal.hit(hashes, (length - 1) // size) * size
        return Journey(name, request, router, ask, length, hashes, ideal)

    def _take_answer(self, journey: Journey, answer: Answer, now: float) -> None:
        if isinstance(answer, Routed):
            journey.routed, journey.decode = answer, answer.decode.worker_id
            journey.prefill = ""
            self.agenda.put(now + self._scenario.delays.route_s, partial(self._reach, journey, answer))
        elif isinstance(answer, Refused):
            self._end(journey, End.REFUSED)

    def _reach(self, journey: Journey, routed: Routed, now: float) -> None:
        """Bring a request to the agent of its decode worker."""
        worker = self.fleet.workers.get(routed.decode.worker_id)
        if worker is None or not worker.takes_requests:
            self._retry(journey, routed.decode.worker_id, now)
            return
        alive = (self.fleet.workers.get(ref.worker_id) for ref in routed.prefill)
        source = next((each for each in alive if each is not None and each.takes_requests), None)
        self._accept(worker, journey, routed, computes=source is None)
        if source is None:
            self._submit(worker, journey, now)
            return
        journey.prefill, journey.prefill_sent_s = source.worker_id, now
        self._accept(source, journey, routed, computes=True)
        source.submit(journey, now, hold=True)
        self._stir(source, now)
        self._stir(worker, now)

    def _accept(self, worker: Worker, journey: Journey, routed: Routed, *, computes: bool) -> None:
        worker.journeys[journey.name] = journey
        uncached = routed.uncached_tokens if computes else 0
        worker.agent.load(wording.entry(journey, worker_pb2.LOAD_PHASE_ACCEPTED, uncached=uncached))
        self._streams.announce(worker, journey, routed.expects)

    def _submit(self, worker: Worker, journey: Journey, now: float, source: RemoteSource | None = None) -> None:
        worker.submit(journey, now, source=source)
        self._stir(worker, now)

    def _retry(self, journey: Journey, failed: str, now: float) -> None:
        self.measures.retried += 1
        self._take_answer(journey, self._fronts[journey.router].retry(journey, failed, now), now)

    def _end(self, journey: Journey, how: End) -> None:
        """End a request that got no complete answer; whoever waits for it in a closed loop goes away."""
        del self._open[journey.name]
        self.measures.end(journey, how)

    # Engines -----------------------------------------------------------------------------------------------------

    def _wake(self, worker: Worker, now: float) -> None:
        if worker.due_s == now:
            worker.due_s = None
            self._stir(worker, now)

    def _stir(self, worker: Worker, now: float) -> None:
        """Let a worker's engine do what is due, say what happened, and come back when it has more."""
        engine = worker.engine
        for event in engine.advance(now):
            self._follow(worker, event, now)
        if worker.agent.speaks:
            self._streams.say(worker)
        due = engine.next_event_at()
        if due is not None and due != worker.due_s:
            due = max(due, now)
            if worker.wake is None:
                worker.wake = partial(self._wake, worker)
            self.agenda.put(due, worker.wake, worker.worker_id)
        worker.due_s = due

    def _follow(self, worker: Worker, event: Event, now: float) -> None:
        if isinstance(event, KeysChanged):
            worker.agent.blocks.events.append(event)
        elif isinstance(event, Tokens):
            self._first_token(worker, event)
        elif isinstance(event, Finished):
            self._finish(worker, event, now)
        elif isinstance(event, PullWanted):
            self._pull(worker, event, now)

    def _first_token(self, worker: Worker, event: Tokens) -> None:
        journey = worker.journeys[event.request_id]
        if worker.worker_id == journey.decode:
            journey.first_token_s = event.times[0] + self._scenario.delays.route_s
            worker.agent.load(wording.entry(journey, worker_pb2.LOAD_PHASE_PREFILL_DONE))

    def _finish(self, worker: Worker, event: Finished, now: float) -> None:
        journey = worker.journeys.pop(event.request_id, None)
        if journey is None or event.reason is FinishReason.ABORT:
            return
        worker.agent.load(wording.entry(journey, worker_pb2.LOAD_PHASE_FINISHED))
        if worker.worker_id != journey.decode:
            self._hand_over(worker, journey, event, now)
            return
        if not journey.prefill:
            journey.cached_tokens = event.stats.local_cached
        worker.agent.report(wording.report(journey, event.stats))
        self._answered(journey, event)
        self.fleet.left(worker, now)

    def _answered(self, journey: Journey, event: Finished) -> None:
        del self._open[journey.name]
        at_s = event.at + self._scenario.delays.route_s
        stats = event.stats
        self.measures.answered(journey, at_s, stats.output_tokens)
        self._workload.finished(journey.request, at_s)
        if self._scaler is not None:
            later = stats.output_tokens - 1
            self._scaler.served(
                Served(
                    at_s=at_s,
                    prompt_tokens=journey.prompt_tokens,
                    cached_tokens=journey.cached_tokens,
                    output_tokens=stats.output_tokens,
                    ttft_s=journey.first_token_s - journey.request.at_s,
                    tpot_s=(at_s - journey.first_token_s) / later if later else 0.0,
                )
            )

    # Hand-off ----------------------------------------------------------------------------------------------------

    def _hand_over(self, worker: Worker, journey: Journey, event: Finished, now: float) -> None:
        """Take the prefill worker's answer to the decode worker."""
        journey.prefilled_s, journey.cached_tokens = event.at, event.stats.local_cached
        worker.agent.report(wording.prefill_report(journey, event.stats))
        decode = self.fleet.workers.get(journey.decode)
        if decode is not None and decode.takes_requests and journey.name in decode.journeys:
            held = event.held_blocks or ()
            self._submit(decode, journey, now, RemoteSource(worker.worker_id, journey.name, "", 0, held))

    def _pull(self, worker: Worker, event: PullWanted, now: float) -> None:
        journey = worker.journeys[event.request_id]
        journey.transferred_tokens = event.tokens
        arrives_s = self._links.arrives_at(journey.prefill, worker.pool.profile, event.tokens, now)
        self.agenda.put(arrives_s, partial(self._pulled, worker, journey, event))

    def _pulled(self, worker: Worker, journey: Journey, event: PullWanted, now: float) -> None:
        if worker.journeys.get(journey.name) is not journey or not worker.takes_requests:
            return
        source = self.fleet.workers.get(journey.prefill)
        contents = None if source is None else source.engine.read(journey.name, event.blocks, now)
        if source is None or contents is None:
            worker.engine.pull_failed(journey.name, now, "the producer is gone")
        else:
            worker.engine.pulled(journey.name, contents, now)
            source.engine.confirm(journey.name, now)
            self._stir(source, now)
            self.fleet.left(source, now)
        self._stir(worker, now)

    # Trouble -----------------------------------------------------------------------------------------------------

    def _worker_lost(self, worker: Worker, now: float) -> None:
        """Place what a crashed worker had somewhere else, except where the client has seen a part of the answer."""
        journeys, worker.journeys = list(worker.journeys.values()), {}
        for journey in journeys:
            if journey.decode != worker.worker_id:
                self._prefill_here(journey, now)
                continue
            source = self.fleet.workers.get(journey.prefill)
            if source is not None:
                source.journeys.pop(journey.name, None)
                source.engine.abort(journey.name, now)
                source.engine.confirm(journey.name, now)
                self._stir(source, now)
            if journey.begun:
                self._fronts[journey.router].give_up(journey, now)
                self._end(journey, End.BROKEN)
            else:
                self._retry(journey, worker.worker_id, now)

    def _prefill_here(self, journey: Journey, now: float) -> None:
        """Let the decode worker compute the prompt, since the prefill worker is gone."""
        journey.prefill = ""
        decode = self.fleet.workers.get(journey.decode)
        if decode is not None and decode.takes_requests:
            self._submit(decode, journey, now)

    # What repeats ------------------------------------------------------------------------------------------------

    def _repeat(self, every_s: float, what: Callable[[float], None]) -> None:
        def again(now: float) -> None:
            what(now)
            self.agenda.put(now + every_s, again)

        self.agenda.put(every_s, again)

    def _look(self, watch: Callable[[float], None] | None, now: float) -> None:
        self.measures.look(now, devices=self.fleet.devices, in_flight=len(self._open))
        if watch is not None:
            watch(now)

    def _poll_all(self, now: float) -> None:
        for front in self._fronts:
            self._poll(front, now)

    def _poll(self, front: Front, now: float) -> None:
        for journey, answer in front.poll(now):
            self._take_answer(journey, answer, now)

    def _scale(self, scaler: Scaler, now: float) -> None:
        queued = sum(len(front.waiting) for front in self._fronts)
        staff = {pool.role: self.fleet.staff(pool.role, queued) for pool in self._scenario.pools}
        for role, wanted in scaler.plan(staff, now).items():
            self.fleet.resize(WorkerRole(role), wanted, now)

    def _outcome(self) -> Outcome:
        now, scenario = self.agenda.now, self._scenario
        for journey in list(self._open.values()):
            self._end(journey, End.UNFINISHED)
        self.measures.device_s = self.fleet.device_s(now)
        frame = Frame(
            policy=scenario.policy,
            seed=scenario.seed,
            seconds=now,
            arrivals_s=min(self._last_arrival_s, scenario.duration_s) - scenario.warm_up_s,
            steps=self.fleet.steps,
            scale_events=self.fleet.scale_events,
            ideal_forgot=self._ideal.forgot,
        )
        return outcome_of(self.measures, frame)
