"""Kopf's log lines among ours: its routine is a detail, its retries are warnings.

Filters of the standard module work for the logger that they stand at, not for those below it, and kopf has one a
module: so the handler is filtered.
"""

import logging

_PREFIX = "kopf"


class KopfFilter(logging.Filter):
    """Changes levels of kopf's records, and drops those that fall below `level`."""

    def __init__(self, level: int) -> None:
        super().__init__()
        self._level = level

    def filter(self, record: logging.LogRecord) -> bool:
        if not record.name.startswith(_PREFIX):
            return True
        if record.levelno == logging.INFO:
            _set(record, logging.DEBUG)
        elif record.levelno >= logging.ERROR and "will retry" in record.getMessage():
            _set(record, logging.WARNING)
        return record.levelno >= self._level


def _set(record: logging.LogRecord, level: int) -> None:
    record.levelno, record.levelname = level, logging.getLevelName(level)


def quiet_kopf() -> None:
    """Filter what the root's handlers get; called once, after logging is set up."""
    root = logging.getLogger()
    for handler in root.handlers:
        handler.addFilter(KopfFilter(root.getEffectiveLevel()))
    for client in ("httpx", "httpx2"):
        logging.getLogger(client).setLevel(logging.WARNING)  # a line a request would bury the rest
