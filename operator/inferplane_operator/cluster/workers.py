"""Takes due keys and steps through them, a few at a time.

The only place that knows about retries: a step either returns when to look again or raises.
"""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

import structlog

from inferplane_operator.cluster.backlog import Backlog, Delays
from inferplane_operator.cluster.errors import ClusterError, TerminatingError, ThrottledError
from inferplane_operator.cluster.metrics import OperatorMetrics, StepOutcome
from inferplane_operator.cluster.work_keys import WorkKey
from inferplane_runtime.kube.leadership import NotLeadingError

Step = Callable[[WorkKey], Awaitable[float | None]]
_log = structlog.get_logger("inferplane.operator")
_TERMINATING_AGAIN_S = 60.0
"""Deleting the namespace deletes the object, which is an event; this is for a deletion that hangs."""


class Workers:
    """A queue and those who work it off; stopped until `run`."""

    def __init__(
        self,
        step: Step,
        *,
        count: int,
        now: Callable[[], float],
        metrics: OperatorMetrics,
        delays: Delays | None = None,
        rng: Random | None = None,
    ) -> None:
        self._step = step
        self._count = count
        self._now = now
        self._metrics = metrics
        self._backlog: Backlog[WorkKey] = Backlog(delays or Delays(), rng or Random())  # noqa: S311 - jitter
        self._changed = asyncio.Event()
        self._draining = False

    def add(self, key: WorkKey, *, urgent: bool = False) -> None:
        self._backlog.add(key, self._now(), urgent=urgent)
        self._changed.set()

    @property
    def depth(self) -> int:
        return self._backlog.waiting(self._now())

    async def run(self) -> None:
        """Work until cancelled, or until `drain` and the end of what runs."""
        self._draining = False
        async with asyncio.TaskGroup() as group:
            for number in range(self._count):
                group.create_task(self._work(), name=f"reconcile-{number}")

    def drain(self) -> None:
        """Take nothing more."""
        self._draining = True
        self._changed.set()

    async def _work(self) -> None:
        while not self._draining:
            key = self._backlog.take(self._now())
            if key is None:
                await self._wait()
            else:
                await self._attempt(key)
                self._changed.set()  # another may wait for a due time that this one brought

    async def _wait(self) -> None:
        due = self._backlog.next_at()
        self._changed.clear()
        try:
            async with asyncio.timeout(None if due is None else max(0.0, due - self._now())):
                await self._changed.wait()
        except TimeoutError:
            return

    async def _attempt(self, key: WorkKey) -> None:
        began, outcome = self._now(), StepOutcome.CANCELLED
        try:
            again_in_s = await self._step(key)
            self._backlog.succeeded(key, self._now(), again_in_s=again_in_s)
            outcome = StepOutcome.DONE
        except TerminatingError:
            self._backlog.succeeded(key, self._now(), again_in_s=_TERMINATING_AGAIN_S)
            outcome = StepOutcome.TERMINATING
        except ClusterError as error:
            at_least_s = error.retry_after_s if isinstance(error, ThrottledError) else 0.0
            delay = self._backlog.failed(key, self._now(), at_least_s=at_least_s)
            outcome = StepOutcome.FAILED
            _log.warning("step failed", **_names(key), problem=str(error), again_in_s=round(delay, 1))
        except asyncio.CancelledError:  # its turn comes again if this process leads again
            self._backlog.succeeded(key, self._now(), again_in_s=0.0)
            raise
        except NotLeadingError:
            self._backlog.failed(key, self._now())
            outcome = StepOutcome.NOT_LEADING
        except Exception:  # noqa: BLE001 - the boundary of one object's step: a defect there must not stop the others
            delay = self._backlog.failed(key, self._now())
            outcome = StepOutcome.DEFECT
            _log.exception("step is defective", **_names(key), again_in_s=round(delay, 1))
        finally:
            self._metrics.stepped(key.kind, outcome, self._now() - began)


def _names(key: WorkKey) -> dict[str, str]:
    return {"kind": key.kind, "namespace": key.namespace, "name": key.name}
