"""From a request's bytes to a place: the steps that HTTP and gRPC share, without any transport.

Problem: tokenising may have to ask an engine, and the core may queue; both end later, and in the meantime the client
may go.  Idea: one object per request (`Placement`) that calls back with exactly one of a place and an error, and that
can be abandoned at any moment.  On the usual way everything happens within `place`, with no task and no future.
Invariant: a request that the core knows is completed exactly once, whoever forgets about it.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import field, replace
from itertools import count
from typing import Final

import structlog

from inferplane_api.proto.worker_pb2 import OUTCOME_CLIENT_GONE, Outcome
from inferplane_router.core.facade import Routing
from inferplane_router.core.naming import service_key
from inferplane_router.core.values import Answer, Ask, Queued, ResolvedModel, Routed, Tokens, UnknownModel
from inferplane_router.gateway import parse as bodies
from inferplane_router.gateway.errors import (
    BadRequestError,
    GatewayError,
    NoPlaceError,
    nothing_served,
    unknown_model,
)
from inferplane_router.gateway.headers import Hints, Particulars
from inferplane_router.gateway.meters import GatewayMeters
from inferplane_router.gateway.parse import ParsedBody, Route
from inferplane_router.gateway.seams import Announcer, EncodedPrompt, PromptEncoder, PromptRejectedError
from inferplane_runtime.clock import Clock
from inferplane_runtime.values import value

Deliver = Callable[[Routed | GatewayError], None]
_HOUSEKEEPING_S: Final = 1.0
_SHORTEST_WAIT_S: Final = 0.001
_UNHURRIED_S: Final = 0.1
"""Between two looks when nobody waits: what expires then can do so together, and each look costs as much as a pick."""
_log = structlog.get_logger("inferplane.gateway")


@value(frozen=True, slots=True)
class Wish:
    """One request, parsed: what is asked of which model, by whom."""

    request_id: str
    path: bytes
    route: Route
    body: ParsedBody
    model: ResolvedModel
    hints: Hints
    tenant: str = ""
    deadline_s: float | None = None
    exclude: frozenset[str] = field(default_factory=frozenset[str])
    only: frozenset[str] = field(default_factory=frozenset[str])
    nonce: int = 0
    """See `Ask`."""

    def asking(self, tokens: Tokens | None, *, templated: bool = False) -> Ask:
        """Return what the core is asked, with the prompt's tokens where they are known."""
        return Ask(
            self.request_id,
            self.model,
            tokens,
            salt=self.body.salt,
            templated=templated,
            tenant=self.tenant,
            priority=self.hints.priority,
            max_tokens=self.body.max_tokens,
            ttft_s=self.hints.ttft_s,
            tpot_s=self.hints.tpot_s,
            deadline_s=self.deadline_s,
            session=self.hints.session,
            exclude=self.exclude,
            only=self.only,
            nonce=self.nonce,
        )

    @property
    def particulars(self) -> Particulars:
        hand_off = self.route is not Route.PLAIN
        return Particulars(self.tenant, self.model.adapter, self.hints.priority, hand_off)


class Placement:
    """The search for one request's place."""

    __slots__ = ("_deliver", "_plane", "_work", "ask", "known", "over", "queued_at", "queued_s", "wish")

    def __init__(self, plane: "DataPlane", wish: Wish, deliver: Deliver) -> None:
        self._plane = plane
        self._deliver = deliver
        self._work: asyncio.Future[EncodedPrompt] | None = None
        self.wish = wish
        self.known = False
        """The core has this request in force."""
        self.over = False
        self.queued_at: float | None = None
        self.queued_s = 0.0
        """How long it has waited for a worker, all waits together."""
        self.ask: Ask | None = None
        """What the core was asked."""

    def again(self, failed_worker: str) -> None:
        """Look for another place: `failed_worker` did not take the request."""
        self._plane.again(self, failed_worker)

    def complete(self, outcome: Outcome) -> None:
        """End the request; again is harmless."""
        if not self.over:
            self.let_go()
            if self._work is not None:
                self._work.cancel()
            self._plane.completed(self, outcome)

    def abandon(self) -> None:
        """End the request because its client has gone."""
        self.complete(OUTCOME_CLIENT_GONE)

    def deliver(self, result: Routed | GatewayError) -> None:
        if not self.over:
            self._deliver(result)

    def let_go(self) -> None:
        """Call nobody back any more: who waits holds this, and what is in a ring waits for the garbage collector."""
        self.over = True
        self._deliver = _to_nobody

    def hold(self, work: "asyncio.Future[EncodedPrompt]") -> None:
        self._work = work


class DataPlane:
    """Parses, tokenises, asks the core, and waits for it where it must."""

    def __init__(
        self,
        *,
        core: Routing,
        prompts: PromptEncoder,
        announcer: Announcer,
        clock: Clock,
        draw_id: Callable[[], str],
        meters: GatewayMeters,
        on_ask: Callable[[Ask], None] | None = None,
        first_nonce: int = 1,
    ) -> None:
        self._core = core
        self._on_ask = on_ask
        self._prompts = prompts
        self._announcer = announcer
        self.now = clock.monotonic
        self._draw_id = draw_id
        self._nonces = count(first_nonce)
        """Processes with one epoch begin far from each other."""
        self._meters = meters
        self._waiting: dict[str, Placement] = {}
        self._in_force: set[str] = set()
        self._encoding: set[asyncio.Future[EncodedPrompt]] = set()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def core(self) -> Routing:
        return self._core

    def read(self, path: bytes, route: Route, raw: bytes, hints: Hints, *, tenant: str = "") -> Wish:
        """Parse a request and resolve its model; raises `GatewayError`."""
        body = bodies.parse(route, raw, tenant=tenant)
        model = self._core.resolve_model(body.model)
        if isinstance(model, UnknownModel):
            raise unknown_model(body.model, model.known_names) if model.known_names else nothing_served()
        body.with_model(model.model_name)
        request_id, nonce = self.name(hints.request_id)
        return Wish(request_id, path, route, body, model, hints, tenant, nonce=nonce)

    def name(self, wanted: str) -> tuple[str, int]:
        """Return the client's id and a nonce, or an id of our own, which needs none.

        Two requests in force never share an id; what agents say later of one that is over is known by its nonce.
        """
        if not wanted:
            return self._draw_id(), 0
        taken = wanted in self._in_force or self._core.in_force(wanted)
        return (f"{wanted}-{self._draw_id()}" if taken else wanted), next(self._nonces)

    def place(self, wish: Wish, deliver: Deliver) -> Placement:
        """Find a place; `deliver` is called once, perhaps before this returns."""
        placement = Placement(self, wish, deliver)
        self._in_force.add(wish.request_id)
        if wish.route is Route.PLAIN or wish.model.facts is None:
            self._ask(placement, EncodedPrompt(None))
            return placement
        begun = self.now()
        try:
            body = wish.body
            encoded = self._prompts.encode(wish.model, wish.path.decode("ascii"), body.body, size=len(body.raw))
        except PromptRejectedError as error:
            self._refuse(placement, BadRequestError(error.message, param=error.param))
            return placement
        except Exception:  # noqa: BLE001 - the request's boundary: without tokens it can still be served, by load alone
            _log.exception("a prompt could not be encoded", request_id=wish.request_id)
            encoded = EncodedPrompt(None)
        if isinstance(encoded, EncodedPrompt):
            self._meters.of(service_key(wish.model.service)).tokenise.observe(self.now() - begun)
            self._ask(placement, encoded)
        else:
            self._ask_later(placement, encoded)
        return placement

    def place_tokens(self, wish: Wish, prompt: EncodedPrompt, deliver: Deliver) -> Placement:
        """Find a place for a prompt that is tokens already."""
        placement = Placement(self, wish, deliver)
        self._in_force.add(wish.request_id)
        self._ask(placement, prompt)
        return placement

    def again(self, placement: Placement, failed_worker: str) -> None:
        """Ask the core for another place."""
        if placement.over:
            return
        request_id = placement.wish.request_id
        try:
            answer = self._core.retry(request_id, failed_worker, self.now())
        except KeyError:
            # The agent's report of the failure overtook its answer, and ended the request in the core.
            ask = placement.ask
            if ask is None:
                raise
            placement.ask = replace(ask, exclude=ask.exclude | {failed_worker})
            answer = self._core.pick(placement.ask, self.now())
        self._take(placement, answer)

    def poll(self) -> None:
        """Do what time or news brought; called after every worker message while somebody waits."""
        for request_id, answer in self._core.poll(self.now()):
            placement = self._waiting.pop(request_id, None)
            if placement is not None:
                self._take(placement, answer)
        self._arm()

    def news(self) -> None:
        """Look at the queue, because a worker said something or a request ended."""
        if self._waiting:
            self.poll()

    def completed(self, placement: Placement, outcome: Outcome) -> None:
        request_id = placement.wish.request_id
        self._in_force.discard(request_id)
        self._waiting.pop(request_id, None)
        if placement.known:
            placement.known = False
            self._core.complete(request_id, outcome, self.now())
            self.news()

    def forget(self, placement: Placement) -> None:
        """Leave a placement's end to the agents' reports and to the core's own expiry."""
        placement.let_go()
        self._in_force.discard(placement.wish.request_id)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def in_force(self) -> int:
        """How many requests have begun and not ended."""
        return len(self._in_force)

    async def close(self) -> None:
        """Stop looking for places."""
        if self._timer is not None:
            self._timer.cancel()
        for task in list(self._encoding):
            task.cancel()
        await asyncio.gather(*self._encoding, return_exceptions=True)

    # Inside.

    def _ask_later(self, placement: Placement, encoded: Awaitable[EncodedPrompt]) -> None:
        """Go on when there are tokens; held is the work itself, which leaves nothing behind when it never began."""
        work = asyncio.ensure_future(encoded)
        placement.hold(work)
        self._encoding.add(work)
        work.add_done_callback(self._encoding.discard)
        work.add_done_callback(lambda done: self._encoded(placement, done))

    def _encoded(self, placement: Placement, work: asyncio.Future[EncodedPrompt]) -> None:
        if work.cancelled():
            return
        try:
            prompt = work.result()
        except PromptRejectedError as error:
            self._refuse(placement, BadRequestError(error.message, param=error.param))
            return
        except Exception:  # noqa: BLE001 - the task's boundary: without tokens a request can still be served, by load alone
            _log.exception("a prompt could not be encoded", request_id=placement.wish.request_id)
            prompt = EncodedPrompt(None)
        if not placement.over:
            self._ask(placement, prompt)

    def _ask(self, placement: Placement, prompt: EncodedPrompt) -> None:
        wish = placement.wish
        error = _too_long(wish, prompt)
        if error is not None:
            self._refuse(placement, error)
            return
        placement.ask = ask = wish.asking(prompt.tokens, templated=prompt.templated)
        if self._on_ask is not None:
            self._on_ask(ask)
        begun = self.now()
        answer = self._core.pick(ask, begun)
        meters = self._meters.of(service_key(wish.model.service))
        meters.pick.observe(self.now() - begun)
        if prompt.tokens is not None:
            meters.prompt_tokens.observe(prompt.tokens.size)
        self._take(placement, answer)

    def _take(self, placement: Placement, answer: Answer) -> None:
        if isinstance(answer, Routed):
            placement.known = True
            meters = self._meters.of(service_key(placement.wish.model.service))
            meters.predicted_ttft.observe(answer.ttft_s)
            meters.predicted_tpot.observe(answer.tpot_s)
            if placement.queued_at is not None:
                waited_s = self.now() - placement.queued_at
                meters.queue.observe(waited_s)
                placement.queued_s += waited_s
                placement.queued_at = None
            for expectation in answer.expects:
                self._announcer.announce(answer.request_id, expectation)
            placement.deliver(answer)
        elif isinstance(answer, Queued):
            placement.known = True
            placement.queued_at = self.now()
            self._waiting[answer.request_id] = placement
            self._arm()
        else:
            placement.known = False
            self._refuse(placement, NoPlaceError(answer))

    def _refuse(self, placement: Placement, error: GatewayError) -> None:
        placement.deliver(error)
        placement.complete(error.outcome)

    def _arm(self) -> None:
        """Wake up when the core has something to do."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        wakeup = self._core.next_wakeup()
        if wakeup is None:
            return
        soonest = _SHORTEST_WAIT_S if self._waiting else _UNHURRIED_S
        delay = min(max(wakeup - self.now(), soonest), _HOUSEKEEPING_S)
        self._timer = asyncio.get_running_loop().call_later(delay, self.poll)


def _to_nobody(_result: Routed | GatewayError) -> None:
    """Take what comes after a request's end."""


def _too_long(wish: Wish, prompt: EncodedPrompt) -> BadRequestError | None:
    """Refuse, in the engine's words, what no worker could take."""
    facts = wish.model.facts
    if facts is None or not facts.max_model_len:
        return None
    limit, asked = facts.max_model_len, wish.body.max_tokens
    if asked > limit:
        return BadRequestError(
            f"max_tokens={asked} cannot be greater than max_model_len={limit}. Please request fewer output tokens.",
            param="max_tokens",
        )
    if prompt.tokens is None or prompt.tokens.size < limit or wish.body.body.get("truncate_prompt_tokens") is not None:
        return None
    return BadRequestError(
        f"This model's maximum context length is {limit} tokens. However, your prompt contains {prompt.tokens.size} "
        "input tokens, which exceeds this limit even without any output tokens. Please reduce the length of the input "
        "prompt.",
        param="input_tokens",
    )
