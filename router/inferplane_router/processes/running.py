"""A router of several processes, from its configuration to its exit code."""

from dataclasses import replace

import numpy as np
import structlog
import uvloop

from inferplane_router.config import RouterConfig
from inferplane_router.core.arena import Arena, Place
from inferplane_router.core.block_index import BlockIndex
from inferplane_router.core.followed_index import FollowedIndex
from inferplane_router.core.index_kernels import PLANES
from inferplane_router.core.warming import warm
from inferplane_router.processes.crew import Member, Part
from inferplane_router.processes.gateway_process import running_gateway
from inferplane_router.processes.held_ports import hold
from inferplane_router.processes.index_process import IndexProcess
from inferplane_router.processes.shared import Shared
from inferplane_router.processes.supervisor import Supervisor
from inferplane_router.serving import FAILED, exit_code
from inferplane_runtime.clock import SystemClock
from inferplane_runtime.lifecycle import StopSignal, run_process, settle_memory

_log = structlog.get_logger("inferplane.processes")


def run_processes(config: RouterConfig) -> int:
    """Take the ports, make what is shared, get everything ready, and fork."""
    try:
        listen, holders = hold(config.listen)
        shared = Shared.make(replace(config, listen=listen))
        shared.check()
    except OSError as error:
        _log.error("cannot run", error=str(error))
        return FAILED
    warm()
    warm_readers()
    settle_memory()
    code = Supervisor(config.processes, lambda member: _be(member, shared)).run()
    for holder in holders:
        holder.close()
    return code


def warm_readers() -> None:
    """Run the kernels of a table that another process writes."""
    arena = Arena(1 << 24)
    keys = np.arange(1, 20, dtype=np.uint64)
    BlockIndex(memory=Place(arena, 0)).store(0, keys)
    index = FollowedIndex(arena, 0)
    index.find(keys, np.zeros(1, np.uint64), np.zeros(2, np.uint64), np.zeros((64, PLANES), np.int32))
    index.held(0, keys)


def _be(member: Member, shared: Shared) -> int:
    structlog.contextvars.bind_contextvars(process=member.name)
    serve = _index if member.part is Part.INDEX else _gateway
    return run_process(lambda stop: exit_code(lambda: serve(member, shared, stop)), loop_factory=uvloop.new_event_loop)


async def _index(member: Member, shared: Shared, stop: StopSignal) -> int:
    del member
    async with IndexProcess(shared, clock=SystemClock()).running():
        await stop.wait()
    return 0


async def _gateway(member: Member, shared: Shared, stop: StopSignal) -> int:
    async with running_gateway(shared, member.name) as process:
        await stop.wait()
        return await process.drain()
