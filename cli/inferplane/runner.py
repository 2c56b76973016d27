"""The runner's process as the command line sees it: start it, ask it to end."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping

from inferplane_operator.local.lock import runner_pid
from inferplane_operator.local.processes import launch_argv
from inferplane_operator.local.statedir import StateDir

_LOG_NAME = "runner"


def start(state: StateDir, environment: Mapping[str, str], *, detached: bool) -> "subprocess.Popen[bytes]":
    """Start the runner in a session of its own, so that the terminal's Ctrl-C reaches this command alone.

    Not detached: it drains when this command ends, however it ends.
    """
    argv = [sys.executable, "-m", "inferplane_operator.local", "--state-dir", str(state.root)]
    if not detached:
        argv = launch_argv([*argv, "--with-parent"])
    with state.log(_LOG_NAME).open("ab") as log:
        return subprocess.Popen(  # noqa: S603  our own module
            argv,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=dict(environment),
            start_new_session=True,
        )


def ask_to_end(state: StateDir) -> None:
    """Send the runner one more SIGTERM: the first drains, the second kills."""
    pid = runner_pid(state)
    if pid is not None:
        try:
            os.kill(pid, signal.SIGTERM)
        except ProcessLookupError:
            return
