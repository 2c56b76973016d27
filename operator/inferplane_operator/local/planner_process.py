"""The planner of a local instance: there while the service asks for plans, gone when it does not.

It is told nothing but the folder: what is wanted and what is there it reads from the instance's files, and it scales
through the command line, as a user does.  So it may die and come back at any time.
"""

import json
import sys

from inferplane_operator.local.child import Child
from inferplane_operator.local.ports import Ports
from inferplane_operator.local.processes import Command
from inferplane_operator.local.statedir import StateDir, replace_file
from inferplane_operator.local.worker import Surroundings

NAME = "planner"
_HOST = "127.0.0.1"
_GRACE_S = 5.0
_PERIOD_S = 5.0
"""Shorter than in a cluster: processes of this machine start within seconds."""


class PlannerProcess:
    """Supervised like a worker's children."""

    def __init__(self, state: StateDir, around: Surroundings) -> None:
        self._state = state
        self._around = around
        self._ports = Ports(around.hold_port)
        self._ports.take(("health", "metrics"))
        self.child = Child(
            NAME,
            self._command,
            spawn=around.spawn,
            policy=around.policy,
            clock=around.clock,
            rng=around.rng,
            on_change=around.on_change,
        )

    async def run(self) -> None:
        await self.child.run()
        self._ports.release()

    async def stop(self) -> None:
        await self.child.stop(grace_s=_GRACE_S)

    def kill(self) -> None:
        self.child.kill()

    def _command(self) -> Command:
        self._ports.hand_over()
        config = {
            "local": str(self._state.root),
            "periodS": _PERIOD_S,
            "listen": {name: f"{_HOST}:{self._ports[name]}" for name in ("health", "metrics")},
            "decisions": str(self._state.decisions),
        }
        replace_file(self._state.planner_config, json.dumps(config, indent=2) + "\n")
        argv = (sys.executable, "-m", "inferplane_planner", "--config", str(self._state.planner_config))
        return Command(NAME, argv, self._around.environment, self._around.log_of(NAME))
