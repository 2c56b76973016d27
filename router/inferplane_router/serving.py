"""How a process of the router ends: its exit code, and the words for what was wrong."""

from collections.abc import Awaitable, Callable

import structlog

from inferplane_runtime.settings import SettingsError

FAILED, WRONG_USAGE = 1, 2
_log = structlog.get_logger("inferplane.router")


async def exit_code(serve: Callable[[], Awaitable[int]]) -> int:
    """Run `serve`, which returns how many connections its drain had to reset; return the process's exit code."""
    code = 0
    try:
        left = await serve()
        if left:
            _log.warning("connections reset after the drain timeout", connections=left)
    except* SettingsError as wrong:
        for each in wrong.exceptions:
            _log.error("wrong configuration", error=str(each))
        code = WRONG_USAGE
    except* OSError as errors:
        for error in errors.exceptions:
            _log.error("cannot run", error=str(error))
        code = FAILED
    return code
