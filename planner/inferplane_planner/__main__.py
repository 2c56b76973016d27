"""`python -m inferplane_planner --config FILE`.

Exits 0 after a stop, 1 when an address cannot be listened on, 2 on wrong configuration.
"""

import os
import sys

import structlog

import inferplane_runtime.first_process  # noqa: F401 - before all that takes long
from inferplane_planner.app import Planner
from inferplane_planner.config import Flags, read_config
from inferplane_runtime import logs
from inferplane_runtime.clock import SystemClock
from inferplane_runtime.lifecycle import StopSignal, run_process, settle_memory
from inferplane_runtime.settings import SettingsError, load

_log = structlog.get_logger("inferplane.planner")
_FAILED, _WRONG_USAGE = 1, 2


def main(argv: list[str], environ: dict[str, str]) -> int:
    try:
        flags = load(Flags, argv, environ, program="python -m inferplane_planner")
        config = read_config(flags.config)
        logs.configure(form=flags.log_format, level=flags.log_level, component="planner")
        _log.info("configuration", config=str(config))
        settle_memory()

        async def serve(stop: StopSignal) -> int:
            return await Planner(config, SystemClock(), environ).run(stop)

        return run_process(serve)
    except SettingsError as error:
        sys.stderr.write(f"error: {error}\n")
        return _WRONG_USAGE
    except OSError as error:
        _log.error("cannot run", error=str(error))
        return _FAILED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], dict(os.environ)))
