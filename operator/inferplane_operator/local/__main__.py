"""The runner's process: `python -m inferplane_operator.local --state-dir DIR`.

First SIGTERM or SIGINT drains, a second one kills.  Exits 0 after a drain, 1 when another runner has the folder or a
defect ended it, 2 on wrong usage.
"""

import argparse
import asyncio
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import SystemRandom

import httpx
import structlog

from inferplane_operator.adapters import HttpAgentAdapters
from inferplane_operator.local import port_owner
from inferplane_operator.local.agent_client import HttpProbe
from inferplane_operator.local.assemble import assemble
from inferplane_operator.local.backoff import RestartPolicy
from inferplane_operator.local.desired import read_desired
from inferplane_operator.local.instance import Instance
from inferplane_operator.local.lock import hold_runner_lock
from inferplane_operator.local.machine import Machine, find_gpus
from inferplane_operator.local.processes import INSTANCE_MARKER, end_orphans, spawn
from inferplane_operator.local.statedir import StateDir, StateError, socket_dir
from inferplane_operator.local.worker import Surroundings
from inferplane_runtime.lifecycle import settle_memory
from inferplane_runtime.logs import configure
from inferplane_runtime.ports import hold_port

_log: structlog.stdlib.BoundLogger = structlog.get_logger("inferplane.local")
_PARENT_POLL_S = 0.5


@dataclass(frozen=True, slots=True)
class Flags:
    state_dir: Path
    with_parent: bool
    """End when the process that started us has ended (an `up` in the foreground)."""


def read_flags(argv: list[str]) -> Flags:
    parser = argparse.ArgumentParser("python -m inferplane_operator.local", description="Run one local instance.")
    parser.add_argument("--state-dir", type=Path, required=True, help="folder of the instance")
    parser.add_argument("--with-parent", action="store_true", help="drain and end when the parent process has ended")
    found = parser.parse_args(argv)
    return Flags(state_dir=Path(found.state_dir).absolute(), with_parent=bool(found.with_parent))


def main(argv: list[str], environment: Mapping[str, str]) -> int:
    flags = read_flags(argv)
    configure(component="runner")
    settle_memory()
    logging.getLogger("httpx").setLevel(logging.WARNING)  # a line for each probe would bury the rest
    state = StateDir(flags.state_dir)
    try:
        state.create()
        with hold_runner_lock(state) as held:
            found = end_orphans(state)
            if found:
                _log.warning("ended what an earlier runner had left", children=found)
            asyncio.run(run(state, flags, environment, held))
    except StateError as error:
        _log.error("cannot run", problem=str(error))
        return 1
    return 0


async def run(state: StateDir, flags: Flags, environment: Mapping[str, str], held: Callable[[], bool]) -> None:
    """Run the instance until it is stopped by a signal, by desired state, or by the end of its parent or its folder."""
    runtime_root = Path(environment.get("XDG_RUNTIME_DIR") or "/tmp")  # noqa: S108  a private folder is made in it
    sockets = socket_dir(state, runtime_root=runtime_root)
    desired = read_desired(state)
    machine = Machine(find_gpus(desired.gpus if desired else "auto"))
    async with httpx.AsyncClient(trust_env=False) as client:

        def around(on_change: Callable[[], None]) -> Surroundings:
            return Surroundings(
                spawn=spawn,
                hold_port=lambda port: hold_port(port=port),
                port_complaint=port_owner.complaint,
                probe=HttpProbe(client),
                policy=RestartPolicy(),
                clock=time.monotonic,
                rng=SystemRandom(),
                on_change=on_change,
                log_of=state.log,
                run_root=sockets,
                model_cache=model_cache(environment),
                environment={**environment, INSTANCE_MARKER: str(state.root)},
            )

        instance = Instance(
            state,
            assemble=partial(assemble, machine=machine),
            machine=machine,
            around=around,
            agents=HttpAgentAdapters(client),
            wall_clock=time.time,
            folder_held=held,
        )
        _install_signals(instance)
        await _run_with_parent(instance, os.getppid() if flags.with_parent else None)


def model_cache(environment: Mapping[str, str]) -> Path:
    """Return the user's own Hugging Face home: weights that are there are not fetched again."""
    return Path(environment.get("HF_HOME") or Path(environment.get("HOME") or "/") / ".cache" / "huggingface")


def _install_signals(instance: Instance) -> None:
    asked: list[int] = []

    def arrive(number: int) -> None:
        asked.append(number)
        if len(asked) == 1:
            _log.info("draining", signal=signal.Signals(number).name)
            instance.stop()
        else:
            _log.warning("second signal: killing without a drain", signal=signal.Signals(number).name)
            instance.kill()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, arrive, number)


async def _run_with_parent(instance: Instance, parent: int | None) -> None:
    async with asyncio.TaskGroup() as group:
        watch = group.create_task(_watch_parent(instance, parent), name="watch-parent") if parent else None
        await group.create_task(instance.run(), name="instance")
        if watch:
            watch.cancel()


async def _watch_parent(instance: Instance, parent: int) -> None:
    while os.getppid() == parent:  # noqa: ASYNC110  no event tells of a parent's end on every system
        await asyncio.sleep(_PARENT_POLL_S)
    _log.warning("the command that started this instance has ended: draining")
    instance.stop()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
