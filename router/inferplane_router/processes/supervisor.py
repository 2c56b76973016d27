"""The supervisor of a router of several processes: it forks, waits and passes signals on, and does nothing else.

Problem: processes that share memory must descend from one that made it, and that one must not die of anything.  Idea:
everything is imported and compiled here, once; then a loop waits for signals and does what `crew` says.  There is no
event loop, thread or gRPC in this process, so forking is safe at any time, and what children share costs memory once.
Invariant: a child dies with this process, whatever ends it; a child that ends is waited for.
"""

import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Final, NoReturn, Protocol

import structlog

from inferplane_router.processes.crew import Action, Crew, End, Fork, Member

_WATCHED: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)
_LONGEST_WAIT_S: Final = 60.0
_SET_DEATH_SIGNAL: Final = 1
"""PR_SET_PDEATHSIG of Linux."""
_FAILED: Final = 1
_log = structlog.get_logger("inferplane.processes")


class Body(Protocol):
    """What a member does: it returns its exit code."""

    def __call__(self, member: Member, /) -> int: ...


class Supervisor:
    """Runs members until all have ended."""

    def __init__(self, gateways: int, body: Body, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._crew = Crew(gateways)
        self._body = body
        self._clock = clock
        self._pids: dict[int, Member] = {}
        self._code: int | None = None

    def run(self) -> int:
        """Fork everybody; return the router's exit code."""
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)
        try:
            self._carry_out(self._crew.begin(self._clock()))
            while self._code is None:
                self._carry_out(self._await())
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return self._code

    def _await(self) -> list[Action]:
        due = self._crew.next_due()
        wait_s = _LONGEST_WAIT_S if due is None else max(0.0, min(_LONGEST_WAIT_S, due - self._clock()))
        heard = signal.sigtimedwait(_WATCHED, wait_s)
        now = self._clock()
        actions = self._crew.due(now)
        if heard is not None and heard.si_signo != signal.SIGCHLD:
            _log.info("draining", signal=signal.Signals(heard.si_signo).name)
            actions += self._crew.stop(now)
        return actions + self._reap(now)

    def _reap(self, now: float) -> list[Action]:
        """Wait for all who have ended: one signal may stand for several."""
        actions: list[Action] = []
        while self._pids:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                break
            member = self._pids.pop(pid, None)
            if member is not None:
                code = os.waitstatus_to_exitcode(status)
                _log.info("process ended", process=member.name, pid=pid, code=code)
                actions += self._crew.exited(member, code, now)
        return actions

    def _carry_out(self, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case Fork(member):
                    self._fork(member)
                case End(code):
                    self._code = code
                case _:
                    self._signal(action.member, action.number)

    def _signal(self, member: Member, number: int) -> None:
        for pid, each in self._pids.items():
            if each == member:
                os.kill(pid, number)

    def _fork(self, member: Member) -> None:
        parent = os.getpid()
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid:
            self._pids[pid] = member
            _log.info("process started", process=member.name, pid=pid)
        else:
            _be(member, parent, self._body)


def _be(member: Member, parent: int, body: Body) -> NoReturn:
    """Live as a member: nothing of the supervisor's stack is run any more."""
    code = _FAILED
    try:
        os.setpgid(0, 0)  # a terminal's interrupt is the supervisor's to pass on
        _die_with(parent)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _WATCHED)
        code = body(member)
    except BaseException:  # noqa: BLE001 - the process's boundary: it ends here, whatever happened
        _log.exception("process failed", process=member.name)
    finally:
        sys.stderr.flush()
        os._exit(code)


def _die_with(parent: int) -> None:
    """Be killed when the parent dies, even when it is killed."""
    if ctypes.CDLL(None, use_errno=True).prctl(_SET_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if os.getppid() != parent:
        os._exit(_FAILED)  # it died before
