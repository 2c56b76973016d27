"""`scale`: another number of workers for a pool, within the bounds of its service, on this machine or in a cluster."""

from pathlib import Path

import click

from inferplane.cluster import Connection
from inferplane.completing import complete_pool
from inferplane.context import Context
from inferplane.errors import CommandError, InvalidError
from inferplane.instances import Instance, choose
from inferplane.options import Duration, instance_options
from inferplane.progress import make_progress
from inferplane.target import Target, cluster_meant, world_options
from inferplane.waiting import Wait, wait_ready
from inferplane_operator.local.desired import Desired
from inferplane_operator.local.status import PoolStatus, Status


@click.command("scale")
@click.argument("pool", shell_complete=complete_pool)
@click.argument("replicas", type=click.IntRange(0))
@instance_options
@world_options
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
    target: Target,
) -> None:
    """Give POOL another number of REPLICAS; removed workers are drained first.

    POOL is prefill or decode of a local instance, SERVICE/prefill or SERVICE/decode in a cluster.
    On this machine the next `up` goes by its file again.
    """
    service = name or (pool.partition("/")[0] if "/" in pool else None)
    connection = cluster_meant(context, target, name=service, state_dir=state_dir)
    if connection is not None:
        _scale_in_cluster(connection, pool, replicas, service=name or "", timeout_s=timeout if wait else None)
        return
    _scale_here(context, pool.rpartition("/")[2], replicas, service, state_dir, timeout_s=timeout if wait else None)


def _scale_in_cluster(
    connection: Connection, called: str, replicas: int, *, service: str, timeout_s: float | None
) -> None:
    from inferplane.kube.scaling import find_pool, require_within, scale, wait_scaled  # noqa: PLC0415

    pool = find_pool(connection, called, service)
    require_within(pool, replicas)
    before = pool.replicas
    scale(pool, replicas)
    click.echo(f"{pool.name} scaled from {before} to {replicas}")
    if timeout_s is not None:
        wait_scaled(pool, replicas, timeout_s, lambda line: click.echo(line, err=True))


def _scale_here(
    context: Context, pool: str, replicas: int, name: str | None, state_dir: Path | None, *, timeout_s: float | None
) -> None:
    instance = choose(context, name=name, state_dir=state_dir)
    status = instance.status()
    if not instance.running or status is None:
        raise CommandError(f"{instance.name} is not running; run `inferplane up -f FILE`")
    found = _pool(status, pool)
    _require_within(found, replicas)
    desired = instance.change(lambda current: _scaled(current, found.name, replicas))
    click.echo(f"{found.name} scaled from {found.replicas} to {replicas}")
    if timeout_s is not None:
        _wait(context, instance, desired.generation, timeout_s)


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
