"""One InferenceService's routing: its fleet, policy, waiting line and requests in force.

A request is in force from its decision until `complete`, until its decode worker reports its end, or until no agent
knows of it any more.  Invariant: what a request reserves (load entries, predicted blocks) is released with it.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random
from typing import Final

from inferplane_api.catalogue import CatalogueService
from inferplane_api.proto.router_pb2 import (
    PICK_OUTCOME_DEADLINE,
    PICK_OUTCOME_NO_WORKERS,
    PICK_OUTCOME_QUEUE_FULL,
    PICK_OUTCOME_ROUTED,
    PickOutcome,
)
from inferplane_api.proto.worker_pb2 import OUTCOME_OK, Outcome
from inferplane_router.core import score_kernels as kernels
from inferplane_router.core.admission import Appointments, Pace, Strain, hold_s, patience_s
from inferplane_router.core.cost import CostSettings
from inferplane_router.core.feedback import Feedback
from inferplane_router.core.first_words import FirstWords
from inferplane_router.core.fleet import Fleet
from inferplane_router.core.objective import limits_of
from inferplane_router.core.placing import NoPlace, Placed, Policy, place
from inferplane_router.core.plugins import chooser_of, make_policy
from inferplane_router.core.queueing import Waiting, WaitingLine, begin_waiting
from inferplane_router.core.records import Decision, Records
from inferplane_router.core.retry_budget import RetryBudget
from inferplane_router.core.room import Room
from inferplane_router.core.roster import EXPECTED_S
from inferplane_router.core.tables import Tables
from inferplane_router.core.values import (
    Answer,
    Ask,
    Expectation,
    Queued,
    RefusalReason,
    Refused,
    Routed,
    TargetRef,
)
from inferplane_runtime.values import value

_APPROXIMATE_S: Final = 120.0
"""How long our own decisions stand for a cache whose events are not believed."""
_LINGER_S: Final = 2.0
"""How long predicted blocks outlive their request: block events may come after its end."""
_UNCLAIMED_S: Final = 60.0
_NOBODY_S: Final = 2.0
"""When to ask again while no worker is there: what is missing is a start or a recovery, not a turn."""

_OUTCOMES: Final[dict[RefusalReason, PickOutcome]] = {
    RefusalReason.NO_WORKERS: PICK_OUTCOME_NO_WORKERS,
    RefusalReason.QUEUE_FULL: PICK_OUTCOME_QUEUE_FULL,
    RefusalReason.DEADLINE: PICK_OUTCOME_DEADLINE,
}


@value(frozen=True, slots=True)
class Flight:
    """A request in force."""

    ask: Ask
    routed: Routed
    slots: tuple[int, ...]
    since: float


class Service:
    """Places the requests of one service."""

    def __init__(
        self,
        settings: CatalogueService,
        *,
        epoch: int,
        rng: Random,
        records: Records,
        policies: Mapping[str, Callable[[], Policy]],
        tables: Tables,
        cost: CostSettings,
    ) -> None:
        self.settings: CatalogueService = settings
        self.fleet = Fleet(epoch=epoch, settings=cost, tables=tables)
        self.feedback = Feedback(self.fleet)
        self.line = WaitingLine()
        self.first_words = FirstWords()
        self._room = Room()
        self._pace = Pace()
        self._strain = Strain()
        self._appointments = Appointments(rng.random)
        self._retries = RetryBudget()
        self._displaced: list[tuple[str, Refused]] = []
        """Who had to make room in a full queue, and has not been told yet."""
        self.flights: dict[str, Flight] = {}
        self._policies = policies
        self._policy = make_policy(settings.policy, policies)
        self._choose = chooser_of(self._policy)
        self._rng = rng
        self._records = records

    def follow(self, settings: CatalogueService) -> None:
        """Take a new version of the service."""
        if settings.policy != self.settings.policy:
            self._policy = make_policy(settings.policy, self._policies)
            self._choose = chooser_of(self._policy)
        self.settings = settings

    def pick(self, ask: Ask, now: float, wall_s: float, *, again: bool = False) -> Answer:
        """Place a request, or let it wait, or refuse it; one that is placed again does not queue up once more."""
        if not again:
            self._retries.earn(len(self.flights))
        if self.line.blocks(ask) and not again:
            return self._queue(ask, now, wall_s)
        placed = self._place(ask)
        if isinstance(placed, Placed):
            self._appointments.free(now)
            return self._commit(ask, placed, now, wall_s, queued_s=0.0)
        if placed is NoPlace.NO_ROOM:
            return self._queue(ask, now, wall_s)
        if self.first_words.due(now) and len(self.line) < self.settings.queue_limit:
            who = self._waiting(ask, now)
            return self._join(who, self.line.ahead_of(who)[0])
        return self._no_workers(ask, wall_s, self._nobody(ask))

    def serve_line(self, now: float, wall_s: float) -> list[tuple[str, Routed | Refused]]:
        """Place those who wait, as far as there is room, and refuse those who are late."""
        answers: list[tuple[str, Routed | Refused]] = [*self._displaced]
        self._displaced.clear()

        def offer(waiting: Waiting) -> bool:
            ask = waiting.ask
            placed = self._place(ask)
            if placed is NoPlace.NO_ROOM or (placed is NoPlace.NOBODY and self.first_words.due(now)):
                return False
            if placed is NoPlace.NOBODY:
                answers.append((ask.request_id, self._no_workers(ask, wall_s, self._nobody(ask))))
                return True
            answers.append((ask.request_id, self._commit(ask, placed, now, wall_s, queued_s=now - waiting.since)))
            return True

        self.line.serve(offer, now)
        return answers + self._take_late(now, wall_s)

    def _take_late(self, now: float, wall_s: float) -> list[tuple[str, Routed | Refused]]:
        limit_s = self.settings.ttft_s
        if self.line.has_late(now):
            self._strain.trouble(now, limit_s)
        late = self.line.take_late(now, strict=self._strain.lasts(now, limit_s))
        return [(who.ask.request_id, self._too_late(who, now, wall_s, now - who.since)) for who in late]

    def retry(self, request_id: str, failed_worker: str, now: float, wall_s: float) -> Answer:
        flight = self.flights[request_id]
        self._release(request_id, now, keep_predictions=False)
        if not self._retries.spend():
            return self._no_workers(flight.ask, wall_s, "too many requests had to be placed again")
        return self.pick(replace(flight.ask, exclude=flight.ask.exclude | {failed_worker}), now, wall_s, again=True)

    def complete(self, request_id: str, outcome: Outcome, now: float) -> None:
        if self.line.leave(request_id) is not None:
            return
        if (flight := self.flights.get(request_id)) is not None:
            self._pace.completed(now - flight.since, flight.routed.uncached_tokens)
            self._release(request_id, now, keep_predictions=outcome == OUTCOME_OK)

    def close(self, wall_s: float) -> list[tuple[str, Refused]]:
        """End the service: whoever still waits is refused."""
        self.fleet.close()
        gone = f"service {self.settings.name} was removed"
        waiting = [each.ask for each in self.line]
        return [(ask.request_id, self._no_workers(ask, wall_s, gone)) for ask in waiting]

    def make_room(self, now: float) -> None:
        """Follow at once who came or went: a newcomer begins slowly."""
        self._follow_room(now, at_once=True)

    def sweep(self, now: float) -> None:
        """Let go of requests that no agent knows of and nobody completed."""
        for request_id, flight in tuple(self.flights.items()):
            known = any(self.fleet.load.has(slot, request_id) for slot in flight.slots)
            if now - flight.since > _UNCLAIMED_S and not known:
                self._release(request_id, now, keep_predictions=False)

    def expire(self, now: float) -> None:
        self.first_words.expire(now)
        self.fleet.load.expire(now)
        self._follow_room(now)
        for space in self.fleet.spaces:
            space.overlay.expire(now)
        self.feedback.settle(now)

    def next_wakeup(self) -> float | None:
        if self._displaced:
            return 0.0
        times = [self.line.next_deadline(), self.feedback.next_due(), self.fleet.load.next_expiry()]
        times.append(self.first_words.next_end())
        times += [space.overlay.next_expiry() for space in self.fleet.spaces]
        return min((time for time in times if time is not None), default=None)

    # Deciding ----------------------------------------------------------------------------------------------------

    def _place(self, ask: Ask) -> Placed | NoPlace:
        ask = self._of_today(ask)
        expected = self.feedback.expected_output
        return place(self.fleet, ask, self._choose, expected_output=expected, seed=self._rng.getrandbits(64))

    def _of_today(self, ask: Ask) -> Ask:
        """Ask for the adapter at a revision that there is: the one of the request's arrival may be gone."""
        wanted = ask.model.adapter
        if wanted is None or wanted in self.fleet.adapters:
            return ask
        today = next((each for each in self.fleet.adapters_by_spread() if each.name == wanted.name), None)
        return ask if today is None else replace(ask, model=replace(ask.model, adapter=today))

    def _commit(self, ask: Ask, placed: Placed, now: float, wall_s: float, *, queued_s: float) -> Routed:
        choice, appraisal, fleet = placed.choice, placed.view.appraisal, self.fleet
        decode, computing = choice.decode, choice.computing
        prompt = 0 if ask.tokens is None else ask.tokens.shape[0]
        slots = (decode,) if computing == decode else (decode, computing)
        cached = appraisal.hit_tokens(computing)
        for slot in slots:
            uncached = prompt - cached if slot == computing else 0
            fleet.load.expect(slot, ask.request_id, prompt=prompt, uncached=uncached, now=now, nonce=ask.nonce)
        routed = Routed(
            ask.request_id,
            self._ref(decode),
            tuple([self._ref(slot) for slot in choice.prefills]) if choice.prefills else (),
            prompt,
            cached,
            appraisal.hit_tokens(decode),
            choice.ttft_s,
            choice.tpot_s,
            self._predict(ask, slots, placed, now),
            ask.nonce,
        )
        self.flights[ask.request_id] = Flight(ask, routed, slots, now)
        space = fleet.space_at(computing)
        self._records.add(
            Decision(
                ask,
                wall_s,
                self._policy.name,
                PICK_OUTCOME_ROUTED,
                "",
                choice,
                queued_s,
                space.key.block_size if space else 0,
                space is not None and space.trusts(computing),
                appraisal,
                fleet.crowd,
            )
        )
        return routed

    def _predict(self, ask: Ask, slots: tuple[int, ...], placed: Placed, now: float) -> tuple[Expectation, ...]:
        """Predict the blocks that the request will add; its agents hear of the whole chain.

        What a worker has said it holds needs no prediction.
        """
        expects: list[Expectation] = []
        fleet, hashes = self.fleet, placed.view.hashes
        for slot in slots:
            number = fleet.space_of.item(slot)
            if number >= len(hashes) or not hashes[number].shape[0]:
                continue
            keys, space = hashes[number], fleet.spaces[number]
            held, lives_s = 0, _APPROXIMATE_S
            if space.trusts(slot):
                held = int(placed.view.terms.item(slot, kernels.FIRM_TOKENS)) // space.key.block_size
                lives_s = EXPECTED_S + 2 * placed.choice.ttft_s
            at_most = fleet.kv_blocks.item(slot)
            space.overlay.predict(ask.request_id, slot, keys[held:], now + lives_s, at_most=at_most)
            ref = self._ref(slot)
            expects.append(Expectation(ref.worker_id, ref.rank, keys))
        return tuple(expects)

    def _follow_room(self, now: float, *, at_once: bool = False) -> None:
        objective = self.settings
        self._room.follow(self.fleet, now, objective.tpot_s, percentile=objective.percentile, at_once=at_once)

    def _queue(self, ask: Ask, now: float, wall_s: float) -> Queued | Refused:
        """Let a request wait, if waiting can help."""
        who, limit_s = self._waiting(ask, now), self.settings.ttft_s
        count, work = self.line.ahead_of(who)
        wait_s = self._pace.wait_s(count, work, len(self.flights))
        if wait_s is not None and now + wait_s > who.latest:
            self._strain.trouble(now, limit_s)
        ends = who.latest if self._strain.lasts(now, limit_s) else who.deadline
        if ends <= now or (wait_s is not None and now + wait_s > ends):
            return self._too_late(who, now, wall_s, None)
        if len(self.line) >= self.settings.queue_limit and not self._make_room(who, now, wall_s):
            full = f"{self.settings.queue_limit} requests are waiting already"
            return self._refuse(ask, RefusalReason.QUEUE_FULL, wall_s, full, self._come_back_s(who, now))
        return self._join(who, count)

    def _join(self, who: Waiting, before: int) -> Queued:
        self.line.join(who)
        return Queued(who.ask.request_id, before + 1, who.deadline)

    def _waiting(self, ask: Ask, now: float) -> Waiting:
        uncached = self.fleet.least_uncached(ask)
        own_s = uncached * self.fleet.prefill_token_s()
        patient_s = patience_s(limits_of(ask)[0], own_s + hold_s(self.settings.ttft_s))
        timeout_s = self.settings.queue_timeout_s if ask.deadline_s is None else ask.deadline_s
        if ask.ttft_s is not None:  # who names a limit wants to hear at once that it cannot be kept
            timeout_s = min(timeout_s, patient_s)
        return begin_waiting(ask, now=now, timeout_s=timeout_s, patience_s=patient_s, own_s=own_s, work=uncached)

    def _make_room(self, who: Waiting, now: float, wall_s: float) -> bool:
        """Let the last one of a lower priority go from a full queue."""
        last = self.line.last()
        if last is None or last.ask.priority >= who.ask.priority:
            return False
        self.line.leave(last.ask.request_id)
        displaced = f"{self.settings.queue_limit} requests are waiting already, and more important ones came"
        refused = self._refuse(last.ask, RefusalReason.QUEUE_FULL, wall_s, displaced, self._come_back_s(last, now))
        self._displaced.append((last.ask.request_id, refused))
        return True

    def _too_late(self, who: Waiting, now: float, wall_s: float, waited_s: float | None) -> Refused:
        if waited_s is None:
            message = f"no worker has room within {min(who.deadline, max(who.latest, now)) - now:.3g} s"
        else:
            message = f"waited {waited_s:.1f} s for a worker with room"
        return self._refuse(who.ask, RefusalReason.DEADLINE, wall_s, message, self._come_back_s(who, now))

    def _come_back_s(self, who: Waiting, now: float) -> float:
        """Give an appointment: when all who are before this one now are served, and those who got one before."""
        count, work = self.line.ahead_of(who)
        in_flight = len(self.flights)
        wait_s = self._pace.wait_s(count, work, in_flight) or 0.0
        return self._appointments.give(now, wait_s=wait_s, each_s=self._pace.each_s(in_flight))

    def _no_workers(self, ask: Ask, wall_s: float, message: str) -> Refused:
        return self._refuse(ask, RefusalReason.NO_WORKERS, wall_s, message, _NOBODY_S)

    def _refuse(self, ask: Ask, reason: RefusalReason, wall_s: float, message: str, retry_after_s: float) -> Refused:
        self._records.add(Decision(ask, wall_s, self._policy.name, _OUTCOMES[reason], message, crowd=self.fleet.crowd))
        return Refused(ask.request_id, reason, message, retry_after_s)

    def _nobody(self, ask: Ask) -> str:
        name, adapter = self.settings.name, ask.model.adapter
        if adapter is not None and all(each.name != adapter.name for each in self.fleet.adapters):
            return f"adapter {adapter.name} is not loaded on any worker of service {name} yet"
        if ask.only:
            return f"none of the workers {', '.join(sorted(ask.only))} of service {name} is ready"
        if ask.exclude:
            return f"no worker of service {name} is ready apart from those that failed or were excluded"
        return f"no worker of service {name} is ready"

    def _release(self, request_id: str, now: float, *, keep_predictions: bool) -> None:
        flight = self.flights.pop(request_id)
        for slot in flight.slots:
            self.fleet.load.release(slot, request_id, now)
            if (space := self.fleet.space_at(slot)) is None:
                continue
            if not keep_predictions:
                space.overlay.forget(request_id, slot)
            elif space.trusts(slot):
                space.overlay.shorten(request_id, slot, now + _LINGER_S)

    def _ref(self, slot: int) -> TargetRef:
        ref = self.fleet.refs[slot]
        if ref is None:
            raise RuntimeError(f"slot {slot} was chosen, but has no worker")
        return ref
