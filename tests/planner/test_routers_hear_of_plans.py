"""Routers are told what was decided: each move once, the same again now and then, and again after a failure."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import grpc
import pytest

from inferplane_api.proto import router_pb2 as pb
from inferplane_planner.core.contract import Plan, Verdict
from inferplane_planner.core.decide import Move
from inferplane_planner.observe.notices import REPEAT_S, Lines, Notices, Said, notice

PLAN: Final = Plan(100.0, 1, 2, 0, Move.HOLD, Verdict.MET, "it holds", cost_per_hour=3.0)
ROUTERS: Final = ("a:1", "b:1")


class Routers:
    """Hears what is sent; a broken router hears nothing."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, str]] = []
        self.broken = frozenset[str]()
        self.at = 0.0

    async def send(self, router: str, told: pb.PlanNotice) -> None:
        if router in self.broken:
            raise grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, grpc.aio.Metadata(), grpc.aio.Metadata())
        self.heard.append((router, told.reason))

    def play(self, *rounds: Callable[[], Plan]) -> None:
        """Tell the plans one after the other."""

        async def main() -> None:
            notices = Notices(now=lambda: self.at, send=self.send)
            for plan in rounds:
                async with asyncio.TaskGroup() as group:
                    notices(group, Said(ROUTERS, "default/chat", plan(), acting=True))

        asyncio.run(main())


def test_a_move_is_told_to_each_router_and_the_same_not_again() -> None:
    routers = Routers()
    routers.play(lambda: PLAN, lambda: replace(PLAN, reason="still"), lambda: replace(PLAN, decode=3, reason="more"))

    assert routers.heard == [("a:1", "it holds"), ("b:1", "it holds"), ("a:1", "more"), ("b:1", "more")]


def test_what_stays_is_told_again_for_routers_that_have_started_since() -> None:
    routers = Routers()

    def later() -> Plan:
        routers.at += REPEAT_S
        return PLAN

    routers.play(lambda: PLAN, later)

    assert len(routers.heard) == 4


def test_a_router_that_could_not_be_told_is_told_with_the_next_plan() -> None:
    routers = Routers()
    routers.broken = frozenset({"b:1"})

    def mended() -> Plan:
        routers.broken = frozenset()
        return PLAN

    routers.play(lambda: PLAN, mended)

    assert routers.heard == [("a:1", "it holds"), ("b:1", "it holds")]


@pytest.mark.parametrize(("service", "place"), [("team/chat", ("team", "chat")), ("chat", ("", "chat"))])
def test_a_notice_has_the_plan_in_the_protocols_words(service: str, place: tuple[str, str]) -> None:
    said = notice(Said((), service, PLAN, acting=False))

    assert (said.namespace, said.service) == place
    assert (said.prefill, said.decode, said.verdict, said.reason) == (1, 2, "Met", "it holds")
    assert (said.acting, said.cost_per_hour) == (False, 3.0)


def test_a_router_hears_it_over_the_wire() -> None:
    heard: list[pb.PlanNotice] = []

    async def hear(request: pb.PlanNotice, _context: object) -> pb.PlanNoticed:
        heard.append(request)
        return pb.PlanNoticed()

    async def main() -> None:
        server = grpc.aio.server()
        method = grpc.unary_unary_rpc_method_handler(
            hear, request_deserializer=pb.PlanNotice.FromString, response_serializer=pb.PlanNoticed.SerializeToString
        )
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("inferplane.v1.Router", {"Planned": method}),)
        )
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        lines = Lines()
        try:
            await lines.send(f"127.0.0.1:{port}", pb.PlanNotice(service="chat"))
        finally:
            await lines.close()
            await server.stop(0)

    asyncio.run(main())

    assert [each.service for each in heard] == ["chat"]
