"""The end of a log, for whoever tells of a process that failed: the runner in its status, commands in their errors."""

from pathlib import Path

LAST_LINES = 20
_TAIL_BYTES = 16 * 1024


def tail(log: Path, lines: int, *, since: int = 0) -> tuple[str, ...]:
    """Return the last lines of a file, reading no more than its end; none when it is not there.

    `since`: bytes at the beginning that are not meant; void when the file is shorter, since it was begun anew.
    """
    try:
        with log.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(since if since <= size else 0, size - _TAIL_BYTES))
            text = file.read().decode("utf-8", errors="replace")
    except OSError:
        return ()
    return tuple(line.rstrip() for line in text.splitlines()[-lines:])
