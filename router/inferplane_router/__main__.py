"""`python -m inferplane_router --config FILE`."""

import os
import sys

import structlog
import uvloop

import inferplane_runtime.first_process  # noqa: F401 - before all that takes long
from inferplane_router.app import running_router
from inferplane_router.config import Flags, RouterConfig, read_config
from inferplane_router.core.warming import warm
from inferplane_router.processes.running import run_processes
from inferplane_router.serving import WRONG_USAGE, exit_code
from inferplane_runtime import logs
from inferplane_runtime.lifecycle import StopSignal, run_process, settle_memory
from inferplane_runtime.settings import SettingsError, load

_log = structlog.get_logger("inferplane.router")


def main(argv: list[str], environ: dict[str, str]) -> int:
    try:
        flags = load(Flags, argv, environ, program="python -m inferplane_router")
        config = read_config(flags.config)
    except SettingsError as error:
        sys.stderr.write(f"error: {error}\n")
        return WRONG_USAGE
    logs.configure(form=flags.log_format, level=flags.log_level, component="router")
    _log.info("configuration", config=str(config))
    if config.processes > 1:
        return run_processes(config)
    warm()
    settle_memory()
    return run_process(lambda stop: exit_code(lambda: _serve(config, stop)), loop_factory=uvloop.new_event_loop)


async def _serve(config: RouterConfig, stop: StopSignal) -> int:
    async with running_router(config) as app:
        await stop.wait()
        return await app.drain()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], dict(os.environ)))
