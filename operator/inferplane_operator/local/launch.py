"""Become another program that ends when the runner ends: `python -I -S launch.py PARENT_PID PROGRAM ARGS...`.

The kernel's parent-death signal has to be asked for by the child itself, between fork and exec.  Doing that in the
runner would mean running Python in a forked copy of it, which can dead-lock on any lock that a thread held; so a fresh
interpreter does it and becomes the program (15 ms, no extra process).  Linux only: elsewhere a killed runner leaves its
children to the next one, which ends them before it starts.

The signal is SIGTERM, so that engines take their own children with them.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
_NOT_STARTED = 127


def main(argv: list[str]) -> None:
    parent, program = int(argv[1]), argv[2:]
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
        if os.getppid() != parent:  # it died before the signal was armed
            sys.exit(_NOT_STARTED)
    try:
        os.execvp(program[0], program)  # noqa: S606  no shell is wanted: arguments come from a manifest
    except OSError as error:
        sys.stderr.write(f"{program[0]}: cannot be started: {error.strerror}\n")
        sys.exit(_NOT_STARTED)


if __name__ == "__main__":
    main(sys.argv)
