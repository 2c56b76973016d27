"""Structured lines on stderr: one event, one line, with bound context.

`logfmt` for files and collectors, `json` for machines, `console` for a person at a terminal.  What libraries log
through the standard module takes the same way out, so that a process has one format.
"""

import logging
import sys
from enum import StrEnum
from typing import Final, TextIO

import structlog
from structlog.typing import Processor

_GRPC: Final = ("grpc._cython.cygrpc", "grpc._common")
"""What logs messages that a server and a client cannot read."""
_UNREADABLE: Final = "DecodeError"
"""Protobuf's; known by its name, since not every process loads protobuf."""


class LogFormat(StrEnum):
    LOGFMT = "logfmt"
    JSON = "json"
    CONSOLE = "console"


class LogLevel(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def configure(
    *,
    form: LogFormat = LogFormat.LOGFMT,
    level: LogLevel = LogLevel.INFO,
    stream: TextIO | None = None,
    component: str = "",
) -> None:
    """Set up logging for this process; called once, in `__main__`."""
    number = logging.getLevelNamesMapping()[level.value.upper()]
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="ts"),
        _bytes_as_text,
    ]
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *_renderers(form)],
    )
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(number)
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.make_filtering_bound_logger(number),
        cache_logger_on_first_use=False,
    )
    for name in _GRPC:
        logging.getLogger(name).addFilter(_without_the_peers_traceback)
    structlog.contextvars.clear_contextvars()
    if component:
        structlog.contextvars.bind_contextvars(component=component)


def _without_the_peers_traceback(record: logging.LogRecord) -> bool:
    """Say in one line that a peer sent no message: gRPC logs our stack for it, as often as the peer likes."""
    error = record.exc_info[1] if record.exc_info else None
    if type(error).__name__ == _UNREADABLE:
        record.exc_info = None
        record.levelno, record.levelname = logging.WARNING, "WARNING"
        record.msg, record.args = f"{record.getMessage()}: {error}", None
    return True


def _renderers(form: LogFormat) -> list[Processor]:
    if form is LogFormat.CONSOLE:
        return [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), timestamp_key="ts")]
    exceptions: Processor = structlog.processors.format_exc_info
    if form is LogFormat.JSON:
        return [exceptions, structlog.processors.JSONRenderer()]
    keys = ["ts", "level", "event"]
    return [exceptions, structlog.processors.LogfmtRenderer(key_order=keys, drop_missing=True)]


def _bytes_as_text(_: object, __: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Show bytes (paths, header values) as text, since renderers would print their repr or fail."""
    for key, value in event.items():
        if isinstance(value, bytes):
            event[key] = value.decode("utf-8", "backslashreplace")
    return event
