"""The tasks around the queue: what a step's end means, and how they stop."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

import pytest

from inferplane_operator.cluster.backlog import Delays
from inferplane_operator.cluster.errors import ClusterError, TerminatingError, UnreachableError
from inferplane_operator.cluster.metrics import OperatorMetrics
from inferplane_operator.cluster.work_keys import WorkKey
from inferplane_operator.cluster.workers import Workers
from inferplane_runtime.http.api import Request
from inferplane_runtime.http.testing import RecordedExchange
from inferplane_runtime.kube.leadership import NotLeadingError

pytestmark = pytest.mark.anyio
KEY, OTHER = WorkKey("InferenceService", "ns", "a"), WorkKey("InferenceService", "ns", "b")
AT_ONCE = Delays(settle_s=0.0, first_s=0.0, limit_s=0.0, jitter=0.0)


def workers(
    step: Callable[[WorkKey], Awaitable[float | None]], *, count: int = 2, metrics: OperatorMetrics | None = None
) -> Workers:
    now = asyncio.get_running_loop().time
    made = metrics or OperatorMetrics()
    return Workers(step, count=count, now=now, metrics=made, delays=AT_ONCE, rng=Random(1))


def page(metrics: OperatorMetrics) -> str:
    exchange = RecordedExchange()
    metrics.handler(lambda: None)(Request(b"GET", b"/metrics"), exchange)
    return exchange.body.decode()


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (UnreachableError("away"), "failed"),
        (TerminatingError(403, "going"), "terminating"),
        (NotLeadingError("no"), "not_leading"),
        (KeyError("a defect"), "defect"),
    ],
)
async def test_an_objects_failure_is_counted_and_stops_nobody_else(error: Exception, outcome: str) -> None:
    metrics, done = OperatorMetrics(), asyncio.Event()

    async def step(key: WorkKey) -> None:
        if key == KEY and not failed:
            failed.append(key)
            raise error
        if key == OTHER:
            done.set()

    failed: list[WorkKey] = []
    queue = workers(step, count=1, metrics=metrics)
    task = asyncio.create_task(queue.run())
    queue.add(KEY)
    queue.add(OTHER)
    await done.wait()
    queue.drain()
    await task

    assert f'kind="InferenceService",outcome="{outcome}"}} 1.0' in page(metrics)


async def test_what_failed_is_tried_again_until_it_succeeds() -> None:
    attempts: list[WorkKey] = []
    done = asyncio.Event()

    async def step(key: WorkKey) -> None:
        attempts.append(key)
        if len(attempts) < 4:
            raise ClusterError("not yet")
        done.set()

    queue = workers(step)
    task = asyncio.create_task(queue.run())
    queue.add(KEY)
    await done.wait()
    queue.drain()
    await task

    assert attempts == [KEY] * 4


async def test_one_object_is_never_stepped_through_twice_at_once() -> None:
    running: list[WorkKey] = []
    most, steps, gate = [0], [0], asyncio.Event()

    async def step(key: WorkKey) -> None:
        running.append(key)
        most[0] = max(most[0], running.count(key))
        steps[0] += 1
        await asyncio.sleep(0)
        queue.add(KEY)
        running.remove(key)
        if steps[0] >= 50:
            gate.set()

    queue = workers(step, count=8)
    task = asyncio.create_task(queue.run())
    queue.add(KEY)
    await gate.wait()
    queue.drain()
    await task

    assert most == [1]


async def test_a_drain_finishes_what_runs_and_takes_nothing_more() -> None:
    began, gate, ended = asyncio.Event(), asyncio.Event(), list[WorkKey]()

    async def step(key: WorkKey) -> None:
        began.set()
        await gate.wait()
        ended.append(key)

    queue = workers(step, count=1)
    task = asyncio.create_task(queue.run())
    queue.add(KEY)
    queue.add(OTHER)
    await began.wait()
    queue.drain()
    gate.set()
    await task

    assert len(ended) == 1


async def test_a_step_that_wants_to_look_again_is_run_again() -> None:
    steps, gate = list[WorkKey](), asyncio.Event()

    async def step(key: WorkKey) -> float | None:
        steps.append(key)
        if len(steps) == 3:
            gate.set()
            return None
        return 0.0

    queue = workers(step)
    task = asyncio.create_task(queue.run())
    queue.add(KEY)
    await gate.wait()
    queue.drain()
    await task

    assert steps == [KEY] * 3


async def test_a_step_that_was_cut_short_comes_again_when_the_work_goes_on() -> None:
    attempts: list[WorkKey] = []
    begun, done = asyncio.Event(), asyncio.Event()

    async def step(key: WorkKey) -> None:
        attempts.append(key)
        begun.set()
        if len(attempts) == 1:
            await asyncio.Event().wait()
        done.set()

    queue = workers(step)
    queue.add(KEY)
    first = asyncio.create_task(queue.run())
    await begun.wait()
    first.cancel()
    await asyncio.wait({first})
    second = asyncio.create_task(queue.run())
    await done.wait()
    queue.drain()
    await second

    assert attempts == [KEY, KEY]
