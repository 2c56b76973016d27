"""Tells routers what was decided, so that their consoles can show why replicas change.

Problem: whoever looks at a router sees workers come and go, and the reason is in another process.  Idea: each decision
is said to the routers that the planner hears; they remember the moves.  What is the same as before is repeated now and
then only, for routers that have started since.
Trade-off: a router that cannot be told is told later, and planning never waits for it.
Invariant: one connection a router, one notice on its way to it for each service.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol

import grpc
import structlog

from inferplane_api.proto import router_pb2 as pb
from inferplane_api.proto import router_pb2_grpc
from inferplane_planner.core.contract import Plan
from inferplane_runtime.lifecycle import spawn

_log = structlog.get_logger("inferplane.planner")
REPEAT_S: Final = 60.0
_DEADLINE_S: Final = 2.0
_MOST_ON_THE_WAY: Final = 256
Send = Callable[[str, pb.PlanNotice], Awaitable[None]]
"""Address of a router, and what it is told.  Raises AioRpcError."""


@dataclass(frozen=True, slots=True)
class Said:
    """A decision and who is to hear of it."""

    routers: tuple[str, ...]
    service: str
    """"namespace/name", or a name alone on one machine."""
    plan: Plan
    acting: bool
    """Whether it is carried out."""


class Told(Protocol):
    """Who wants to know what was decided."""

    def __call__(self, group: asyncio.TaskGroup, said: Said, /) -> None:
        """Say it from tasks of `group`."""
        ...


def tell_nobody(_group: asyncio.TaskGroup, _said: Said, /) -> None:
    """Leave routers without a word."""


class Notices:
    """Implements `Told`; `now` is any clock that does not go back."""

    def __init__(self, *, now: Callable[[], float], send: Send | None = None) -> None:
        self._now = now
        self._lines = Lines()
        self._send = send or self._lines.send
        self._said: dict[tuple[str, str], tuple[float, object]] = {}
        self._on_the_way: set[tuple[str, str]] = set()

    def __call__(self, group: asyncio.TaskGroup, said: Said, /) -> None:
        gist = said.plan.candidate, said.plan.lent, said.plan.verdict, said.acting
        for router in said.routers:
            place = router, said.service
            at, before = self._said.get(place, (0.0, None))
            due = gist != before or self._now() - at >= REPEAT_S
            if due and place not in self._on_the_way and len(self._on_the_way) < _MOST_ON_THE_WAY:
                self._on_the_way.add(place)
                telling = spawn(group, f"tell {router} a plan", self._tell(place, notice(said), gist))
                telling.add_done_callback(partial(self._over, place))

    async def close(self) -> None:
        await self._lines.close()

    def _over(self, place: tuple[str, str], _: "asyncio.Task[None]") -> None:
        self._on_the_way.discard(place)

    async def _tell(self, place: tuple[str, str], told: pb.PlanNotice, gist: object) -> None:
        try:
            await self._send(place[0], told)
        except grpc.aio.AioRpcError as error:
            _log.debug("a router was not told of a plan", router=place[0], code=error.code().name)
        else:
            self._said[place] = self._now(), gist


class Lines:
    """Connections to routers, each opened when it is needed first."""

    def __init__(self) -> None:
        self._channels: dict[str, grpc.aio.Channel] = {}

    async def send(self, router: str, told: pb.PlanNotice) -> None:
        """Tell one router.  Raises AioRpcError; the connection is then made anew the next time."""
        channel = self._channels.get(router)
        if channel is None:
            channel = self._channels[router] = grpc.aio.insecure_channel(router)
        make_stub: Any = router_pb2_grpc.RouterStub  # generated without types
        try:
            await make_stub(channel).Planned(told, timeout=_DEADLINE_S)
        except grpc.aio.AioRpcError:
            self._channels.pop(router, None)
            await channel.close()
            raise

    async def close(self) -> None:
        for channel in tuple(self._channels.values()):
            await channel.close()


def notice(said: Said) -> pb.PlanNotice:
    """Say a plan in the protocol's words."""
    namespace, _, name = said.service.rpartition("/")
    plan = said.plan
    return pb.PlanNotice(
        service=name,
        namespace=namespace,
        decided_at=plan.decided_at_s,
        prefill=plan.prefill,
        decode=plan.decode,
        lent=plan.lent,
        acting=said.acting,
        verdict=plan.verdict.value,
        reason=plan.reason,
        cost_per_hour=plan.cost_per_hour,
    )
