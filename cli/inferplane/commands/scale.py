"""`scale`: another number of workers for a pool, within the bounds of its manifest."""

from pathlib import Path

import click

from inferplane.context import Context
from inferplane.errors import CommandError, InvalidError
from inferplane.instances import Instance, choose
from inferplane.options import Duration, instance_options
from inferplane.progress import make_progress
from inferplane.waiting import Wait, wait_ready
from inferplane_operator.local.desired import Desired
from inferplane_operator.local.status import PoolStatus, Status


@click.command("scale")
@click.argument("pool")
@click.argument("replicas", type=click.IntRange(0))
@instance_options
@click.option("--wait", is_flag=True, help="Return when the workers are as wanted.")
@click.option("--timeout", type=Duration(), default="10m", show_default=True, help="Longest wait, with --wait.")
@click.pass_obj
def command(
    context: Context,
    *,
    pool: str,
    replicas: int,
    name: str | None,
    state_dir: Path | None,
    wait: bool,
    timeout: float,
) -> None:
    """Give POOL another number of REPLICAS; removed workers are drained first.

    The next `up` goes by its file again.
    """
    instance = choose(context, name=name, state_dir=state_dir)
    status = instance.status()
    if not instance.running or status is None:
        raise CommandError(f"{instance.name} is not running; run `inferplane up -f FILE`")
    found = _pool(status, pool)
    _require_within(found, replicas)
    desired = instance.change(lambda current: _scaled(current, found.name, replicas))
    click.echo(f"{found.name} scaled from {found.replicas} to {replicas}")
    if wait:
        _wait(context, instance, desired.generation, timeout)


def _pool(status: Status, name: str) -> PoolStatus:
    found = [pool for pool in status.pools if name in (pool.name, f"{status.service}-{pool.name}")]
    if not found:
        names = ", ".join(pool.name for pool in status.pools)
        raise InvalidError(f"{status.service} has no pool {name!r}; there are: {names}")
    return found[0]


def _require_within(pool: PoolStatus, replicas: int) -> None:
    if replicas > pool.max_replicas:
        raise InvalidError(
            f"{replicas} is more than spec.{pool.role}.maxReplicas ({pool.max_replicas}); "
            "raise it in the file and run `inferplane up -f FILE`"
        )
    if replicas < pool.min_replicas:
        raise InvalidError(
            f"{replicas} is less than spec.{pool.role}.minReplicas ({pool.min_replicas}); "
            "lower it in the file and run `inferplane up -f FILE`"
        )


def _scaled(current: Desired | None, pool: str, replicas: int) -> Desired:
    if current is None:
        raise CommandError("what the instance should be is lost or damaged; run `inferplane up -f FILE` to replace it")
    return current.model_copy(update={"replicas": {**current.replicas, pool: replicas}})


def _wait(context: Context, instance: Instance, generation: int, timeout_s: float) -> None:
    with make_progress(context) as progress:
        wait_ready(Wait(instance, generation, timeout_s, alive=lambda: instance.running), progress)
