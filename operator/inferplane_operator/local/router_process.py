"""The one router of a local instance: its configuration file, its ports, whether it answers.

Its gateway port is the user's choice and fixed; the others come from the allocator once and stay, so that clients of
the gRPC service find it again after a crash.
"""

import asyncio
import json
import sys

from inferplane_operator.local.agent_client import Readiness
from inferplane_operator.local.child import Child, ChildState
from inferplane_operator.local.ports import Ports
from inferplane_operator.local.processes import Command
from inferplane_operator.local.statedir import StateDir, replace_file
from inferplane_operator.local.status import ChildStatus
from inferplane_operator.local.worker import Surroundings
from inferplane_operator.render import RouterSettings, router_config

_HOST = "127.0.0.1"
NAME = "router"


class RouterProcess:
    """Supervised like a worker's children; replaced when the gateway's port changes."""

    def __init__(
        self,
        state: StateDir,
        around: Surroundings,
        *,
        gateway_port: int,
        drain_timeout_s: float,
        processes: int = 1,
    ) -> None:
        self._state = state
        self._around = around
        self._wanted_port = gateway_port
        self._drain_timeout_s = drain_timeout_s
        self._processes = processes
        self._readiness = Readiness(ready=False, reason="not started")
        self._ports = Ports(around.hold_port)
        self._ports.take(("grpc", "metrics"))
        if gateway_port == 0:
            self._ports.take(("gateway",))
        self.child = Child(
            NAME,
            self._command,
            spawn=around.spawn,
            policy=around.policy,
            clock=around.clock,
            rng=around.rng,
            on_change=around.on_change,
        )

    def serves(self, gateway_port: int) -> bool:
        """Whether this is the router that was asked for."""
        return self._wanted_port == gateway_port

    @property
    def gateway_port(self) -> int:
        return self._wanted_port or self._ports["gateway"]

    @property
    def url(self) -> str:
        return f"http://{_HOST}:{self.gateway_port}"

    @property
    def grpc(self) -> str:
        return f"{_HOST}:{self._ports['grpc']}"

    @property
    def metrics(self) -> str:
        return f"{_HOST}:{self._ports['metrics']}"

    @property
    def readiness(self) -> Readiness:
        return self._readiness

    def status(self) -> ChildStatus:
        return self.child.status()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            watch = group.create_task(self._watch(), name="router-watch")
            await group.create_task(self.child.run(), name=NAME)
            watch.cancel()
        self._ports.release()

    async def stop(self) -> None:
        """Let it finish its streams, then end it."""
        await self.child.stop(grace_s=self._drain_timeout_s + 5.0)

    def kill(self) -> None:
        self.child.kill()

    async def _watch(self) -> None:
        while True:
            found = await self._look()
            if found != self._readiness:
                self._readiness = found
                self._around.on_change()
            await asyncio.sleep(self._around.probe_interval_s)

    async def _look(self) -> Readiness:
        if self.child.state is not ChildState.RUNNING:
            status = self.child.status()
            reason = f"{status.state}: {status.last_exit}" if status.last_exit else "not started"
            return Readiness(ready=False, reason=reason)
        return await self._around.probe.ready(f"{_HOST}:{self.gateway_port}")

    def _command(self) -> Command:
        """Write the configuration for the ports as they are now.  Raises OSError when the gateway's port is taken."""
        self._ports.hand_over()
        complaint = self._around.port_complaint(self._wanted_port) if self._wanted_port else ""
        if complaint:
            raise OSError(complaint)
        config = router_config(
            RouterSettings(
                catalogue_file=str(self._state.catalogue),
                cache_dir=str(self._state.cache),
                http=f"{_HOST}:{self.gateway_port}",
                grpc=self.grpc,
                metrics=self.metrics,
                report=str(self._state.router_report),
                drain_timeout_s=self._drain_timeout_s,
                processes=self._processes,
                console=True,
                records=str(self._state.records),
                trace_endpoint=self._around.environment.get("INFERPLANE_TRACE_ENDPOINT", ""),
                trace_ratio=self._around.environment.get("INFERPLANE_TRACE_RATIO", ""),
            )
        )
        # JSON is YAML too.
        replace_file(self._state.router_config, json.dumps(config, indent=2) + "\n")
        argv = (sys.executable, "-m", "inferplane_router", "--config", str(self._state.router_config))
        return Command(NAME, argv, self._around.environment, self._around.log_of(NAME))
