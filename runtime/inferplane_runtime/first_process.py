"""Lets a container's first process be stopped while it still imports what it is made of; imported for that alone.

Linux gives the first process of a container no signal that it has no handler for.  A program that is told to stop in
its first seconds would not hear it, and would be killed when the Pod's grace has passed: a minute and more for a worker
whose drain may take that long.
Trade-off: importing has an effect; each `__main__` imports this before anything of ours.
Invariant: nothing changes for any process but the first, and a program's own handler takes this one's place.
"""

import os
import signal


def _end(number: int, _frame: object) -> None:
    os._exit(128 + number)  # nothing has begun, so there is nothing to tidy


if os.getpid() == 1:
    for _number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(_number, _end)
