"""`python -m inferplane_workers.fetch`: read the settings, download, end.

Status 0: the files are there; 1: they are not, the last line says why; 2: the settings are wrong.
"""

import logging
import os
import sys
from typing import Final

import structlog

from inferplane_runtime import logs
from inferplane_runtime.settings import SettingsError, load
from inferplane_workers.fetch.config import FetchConfig

_FAILED, _WRONG_CONFIGURATION = 1, 2
_QUIET: Final = {"HF_HUB_DISABLE_PROGRESS_BARS": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
_PLAIN: Final = {"HF_HUB_DISABLE_XET": "1"}
"""Mirrors speak the plain protocol, and certificates are given to that alone."""
_TALKATIVE: Final = ("httpx", "httpx2")
"""They write each address that they ask, and those of a hub's stores open what they name."""
_ENDPOINT: Final = "HF_ENDPOINT"
"""Whom the library asks besides: with a mirror, nobody else is asked anything."""


def main() -> int:
    try:
        config = load(FetchConfig, sys.argv[1:], os.environ, program="inferplane-fetch")
    except SettingsError as error:
        sys.stderr.write(f"inferplane-fetch: {error}\n")
        return _WRONG_CONFIGURATION
    logs.configure(form=config.log_format, level=config.log_level, component="fetch")
    for library in _TALKATIVE:
        logging.getLogger(library).setLevel(logging.WARNING)
    # The hub's library reads its settings when it is imported, and only there.
    os.environ.update(_QUIET | (_PLAIN if config.endpoint or config.ca_bundle else {}))
    if config.endpoint:
        os.environ[_ENDPOINT] = config.endpoint
    return _run(config, os.environ.get("HF_TOKEN") or None)


def _run(config: FetchConfig, token: str | None) -> int:
    from inferplane_workers.fetch.download import fetch  # noqa: PLC0415 - see main
    from inferplane_workers.fetch.failures import explain  # noqa: PLC0415

    try:
        fetch(config, token=token)
    except Exception as error:  # the program's edge: what can be named is said in words
        words = explain(error, config, token=token is not None)
        if words is None:
            raise
        structlog.get_logger("inferplane.fetch").debug("the cause", exc_info=True)
        sys.stderr.write(f"inferplane-fetch: {words}\n")
        return _FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main())
