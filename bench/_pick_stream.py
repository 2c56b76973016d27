"""Picks over gRPC against an empty echo of the same library: `python bench/_pick_stream.py [--picks N]`.

A Router service in a process of its own, with 100 aggregated workers that hold half of some prompt, and beside it an
echo that answers an empty message at once; both are asked by one client, in turns, one call at a time.  A prompt is 8k
tokens, packed.  Then 64 picks at a time share one stream, for the rate.  Every pick is completed when it is 400 calls
old, outside the times that are taken.  The last line is JSON.
"""

import argparse
import contextlib
import json
import os
import sys
import time
from collections import deque
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import uvloop
from bench_gateway import first_line, process
from bench_pick import filled_core

from inferplane_api.catalogue import RoutingMode
from inferplane_api.proto import router_pb2 as pb
from inferplane_api.proto import router_pb2_grpc, worker_pb2
from inferplane_router.core.testing import prompt
from inferplane_router.gateway.data_plane import DataPlane
from inferplane_router.gateway.headers import HeaderWriter, id_source
from inferplane_router.gateway.meters import GatewayMeters
from inferplane_router.gateway.testing import ByteEncoder, NotedAnnouncements
from inferplane_router.grpc.observations import Observations
from inferplane_router.grpc.server import GrpcServer
from inferplane_router.grpc.servicer import RouterServicer
from inferplane_runtime.clock import SystemClock
from inferplane_runtime.lifecycle import settle_memory
from inferplane_runtime.metrics.instruments import Instruments

_TOKENS, _PROMPTS, _IN_FLIGHT, _AT_ONCE = 8192, 64, 400, 64
_ECHO = "/bench.Echo/Echo"


class SilentAnnouncements(NotedAnnouncements):
    """Keeps nothing: there is no agent."""

    def announce(self, request_id: str, expectation: object) -> None: ...


async def serve(workers: int) -> None:
    """Serve the Router and the echo; print both ports."""
    clock = SystemClock()
    plane = DataPlane(
        core=filled_core(workers, RoutingMode.AGGREGATED),
        prompts=ByteEncoder(),
        announcer=SilentAnnouncements(),
        clock=clock,
        draw_id=id_source(os.urandom),
        meters=GatewayMeters(Instruments()),
    )
    observations = Observations(wall=clock.wall)
    writer = HeaderWriter(subscriber_epoch=1)
    router = GrpcServer(RouterServicer(plane=plane, writer=writer, observations=observations))

    async def echo(request: bytes, _: object) -> bytes:
        return request

    server = grpc.aio.server()
    handlers = grpc.method_handlers_generic_handler("bench.Echo", {"Echo": grpc.unary_unary_rpc_method_handler(echo)})
    server.add_generic_rpc_handlers((handlers,))
    echo_port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    port = await router.start("127.0.0.1:0")
    settle_memory()  # as a router does at its start
    sys.stdout.write(f"{port} {echo_port}\n")
    sys.stdout.flush()
    await server.wait_for_termination()


class Client:
    """Asks, and completes what is old."""

    def __init__(self, channel: grpc.aio.Channel, echoes: grpc.aio.Channel) -> None:
        generated: Any = router_pb2_grpc
        self.stub = generated.RouterStub(channel)
        self.echo = echoes.unary_unary(_ECHO)
        self.prompts = [prompt(number, _TOKENS).astype("<i4").tobytes() for number in range(_PROMPTS)]
        self.asked: deque[str] = deque()
        self.count = 0

    def question(self) -> pb.PickRequest:
        self.count += 1
        name = f"b{self.count}"
        self.asked.append(name)
        return pb.PickRequest(request_id=name, model="tiny", token_ids=self.prompts[self.count % _PROMPTS])

    async def tidy(self) -> None:
        while len(self.asked) > _IN_FLIGHT:
            name = self.asked.popleft()
            await self.stub.Complete(pb.CompleteRequest(request_id=name, outcome=worker_pb2.OUTCOME_ENGINE_LOST))

    async def alone(self, picks: int) -> dict[str, list[float]]:
        """Time one call at a time: echo, unary pick, pick on a stream, in turns."""
        times: dict[str, list[float]] = {"echo": [], "unary": [], "stream": []}
        stream = self.stub.PickStream()
        for _ in range(picks):
            began = time.perf_counter()
            await self.echo(b"")
            times["echo"].append(time.perf_counter() - began)
            question = self.question()
            began = time.perf_counter()
            check(await self.stub.Pick(question))
            times["unary"].append(time.perf_counter() - began)
            question = self.question()
            began = time.perf_counter()
            await stream.write(question)
            check(await stream.read())
            times["stream"].append(time.perf_counter() - began)
            await self.tidy()
        stream.cancel()
        return times

    async def together(self, picks: int) -> float:
        """Return picks a second on one stream with many in flight."""
        stream = self.stub.PickStream()
        for _ in range(_AT_ONCE):
            await stream.write(self.question())
        began = time.perf_counter()
        for _ in range(picks):
            check(await stream.read())
            await stream.write(self.question())
            await self.tidy()
        took = time.perf_counter() - began
        stream.cancel()
        return picks / took


def check(reply: pb.PickReply) -> None:
    if reply.outcome != pb.PICK_OUTCOME_ROUTED:
        raise RuntimeError(f"a pick failed: {reply}")


async def run(picks: int, port: int, echo_port: int) -> dict[str, Any]:
    async with contextlib.AsyncExitStack() as stack:
        addresses = (f"127.0.0.1:{port}", f"127.0.0.1:{echo_port}")
        channels = [await stack.enter_async_context(grpc.aio.insecure_channel(each)) for each in addresses]
        client = Client(*channels)
        await client.alone(100)
        times = {name: np.array(each) * 1e6 for name, each in (await client.alone(picks)).items()}
        rate = await client.together(picks)
    return {
        "pick_stream_p50_us": round(float(np.median(times["stream"])), 1),
        "pick_stream_p99_us": round(float(np.percentile(times["stream"], 99)), 1),
        "unary_p50_us": round(float(np.median(times["unary"])), 1),
        "echo_p50_us": round(float(np.median(times["echo"])), 1),
        "echo_p99_us": round(float(np.percentile(times["echo"], 99)), 1),
        "unary_vs_empty_echo": round(float(np.median(times["unary"]) / np.median(times["echo"])), 3),
        "stream_picks_per_s": round(rate),
    }


def over_grpc(picks: int, workers: int) -> dict[str, Any]:
    """Run the whole comparison."""
    with process(str(Path(__file__)), "--serve", str(workers)) as server:
        port, echo_port = first_line(server)
        return uvloop.run(run(picks, port, echo_port))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--picks", type=int, default=2000)
    parser.add_argument("--workers", type=int, default=100)
    parser.add_argument("--serve", type=int, metavar="WORKERS", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        uvloop.run(serve(given.serve))
        return
    print(json.dumps({"bench": "pick_stream", **over_grpc(given.picks, given.workers)}))


if __name__ == "__main__":
    main()
