"""`python -m inferplane_workers.agent`: read the settings, run until told to stop, drain."""

import os
import sys

import uvloop

import inferplane_runtime.first_process  # noqa: F401 - before all that takes long
from inferplane_runtime import logs
from inferplane_runtime.lifecycle import StopSignal, run_process, settle_memory
from inferplane_runtime.settings import SettingsError, load
from inferplane_workers.agent.app import Agent
from inferplane_workers.agent.config import AgentConfig
from inferplane_workers.agent.errors import ConfigError

_WRONG_CONFIGURATION = 2


def main() -> int:
    try:
        config = load(AgentConfig, sys.argv[1:], os.environ, program="inferplane-agent")
    except SettingsError as error:
        sys.stderr.write(f"inferplane-agent: {error}\n")
        return _WRONG_CONFIGURATION
    logs.configure(form=config.log_format, level=config.log_level, component="agent")
    settle_memory()

    async def serve(stop: StopSignal) -> int:
        agent = Agent(config)
        async with agent.running():
            await stop.wait()
            await agent.drain()
        return 0

    try:
        return run_process(serve, loop_factory=uvloop.new_event_loop)
    except ConfigError as error:
        sys.stderr.write(f"inferplane-agent: {error.message}\n")
        return _WRONG_CONFIGURATION


if __name__ == "__main__":
    sys.exit(main())
