"""Ends what runs on its own when the tests that started it are gone, however they ended.

Problem: a detached service outlives whoever started it, which is its purpose, and a run of tests that is killed has no
chance to end it.
Idea: a shell waits at a pipe that only we hold.  A line tells it that all is well; the pipe's end, that we are gone.
"""

import subprocess
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager

_WAIT = 'read -r _ || exec "$@" >/dev/null 2>&1'


@contextmanager
def ended_with_us(command: Sequence[str], environment: Mapping[str, str] | None = None) -> Generator[None]:
    """Run `command` if this process ends before the context does."""
    waiting = ["/bin/sh", "-c", _WAIT, "sh", *command]
    # A session of its own: what kills ours, group and all, leaves it to its work.
    with subprocess.Popen(  # noqa: S603 - our own command
        waiting, stdin=subprocess.PIPE, env=environment, start_new_session=True, text=True
    ) as shell:
        try:
            yield
        finally:
            shell.communicate("done\n")
