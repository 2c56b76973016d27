"""`python -m inferplane_workers.sim FLAGS`: parse, build, run."""

import asyncio
import os
import signal
import sys

import structlog
import uvloop

import inferplane_runtime.first_process  # noqa: F401 - before all that takes long
from inferplane_runtime.lifecycle import settle_memory
from inferplane_runtime.logs import configure
from inferplane_workers.sim.app import DEAD, SimServer, running
from inferplane_workers.sim.options import OptionsError, SimOptions, parse_options

_WRONG_USAGE = 2
_log = structlog.get_logger("inferplane.sim")


async def serve(options: SimOptions) -> int:
    """Serve until SIGTERM or SIGINT, or until the engine dies."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with running(options) as server:
        _log.info(
            "serving", host=options.host, port=server.port, model=options.served_names[0], profile=options.profile.name
        )
        server.died.add_done_callback(lambda _: stop.set())
        await stop.wait()
        if server.died.done():
            return await _die(server)
        # With a timeout of zero the engine drops what runs, as vLLM does.
        dropped = await server.http.drain(options.shutdown_timeout_s)
        _log.info("stopped", dropped=dropped)
    return 0


async def _die(server: SimServer) -> int:
    _log.error("engine died", reason=server.died.result())
    server.service.reset_all()
    await server.http.drain(0.2)
    return DEAD


def main() -> int:
    configure(component="sim")
    try:
        options = parse_options(sys.argv[1:], os.environ)
        settle_memory()
        return uvloop.run(serve(options))
    except OptionsError as error:
        sys.stderr.write(f"error: {error}\n")
        return _WRONG_USAGE


if __name__ == "__main__":
    sys.exit(main())
