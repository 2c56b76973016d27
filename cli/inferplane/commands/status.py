"""`status`: instances of this machine or services of a cluster, or one of them with its pools and workers."""

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from inferplane import store_view
from inferplane.cluster import Connection
from inferplane.completing import complete_instance
from inferplane.context import Context
from inferplane.errors import CommandError, InvalidError
from inferplane.instances import Instance, all_instances, choose
from inferplane.options import state_dir_option
from inferplane.output import Format, output_option, show_document, show_table
from inferplane.target import Target, cluster_meant, cluster_needed, world_options
from inferplane_operator.local.status import InstancePhase, KVStoreStatus, Status

_POLL_S = 0.3
_STORE_PATIENCE_S = 2.0


@click.command("status")
@click.argument("name", required=False, shell_complete=complete_instance)
@state_dir_option
@click.option("-w", "--watch", is_flag=True, help="Print again whenever something changes.")
@click.option("-A", "--all-namespaces", "everywhere", is_flag=True, help="List services of all namespaces.")
@world_options
@output_option
@click.pass_obj
def command(
    context: Context,
    *,
    name: str | None,
    state_dir: Path | None,
    watch: bool,
    everywhere: bool,
    target: Target,
    output: str,
) -> None:
    """Show what runs: with a name, or when there is one instance, its pools and workers.

    A cluster is asked where an option names one, or where no local instance of that name runs.
    """
    connection = _cluster(context, target, name, state_dir, everywhere=everywhere)
    with suppress(KeyboardInterrupt):  # how a watch ends
        if connection is not None:
            _show_cluster(context, connection, name, Format(output), everywhere=everywhere, watch=watch)
        else:
            _show_here(context, name, state_dir, Format(output), watch=watch)


def _cluster(
    context: Context, target: Target, name: str | None, state_dir: Path | None, *, everywhere: bool
) -> Connection | None:
    if not everywhere:
        return cluster_meant(context, target, name=name, state_dir=state_dir)
    if name is not None:
        raise InvalidError("-A lists services of all namespaces; to see one, give its namespace with -n")
    if target.local or state_dir is not None:
        raise InvalidError("-A lists services of a cluster; leave out --local and --state-dir")
    return cluster_needed(context, target)


def _show_cluster(
    context: Context, connection: Connection, name: str | None, form: Format, *, everywhere: bool, watch: bool
) -> None:
    from inferplane.kube.show_status import show_service, show_services  # noqa: PLC0415  not for local instances

    if name is None:
        show_services(context, connection, form, everywhere=everywhere, watch=watch)
    else:
        show_service(context, connection, name, form, watch=watch)


def _show_here(context: Context, name: str | None, state_dir: Path | None, form: Format, *, watch: bool) -> None:
    if name is None and state_dir is None:
        instances = all_instances(context)
        running = [instance for instance in instances if instance.running]
        if len(running or instances) != 1:
            _show_all(context, instances, form)
            return
    instance = choose(context, name=name, state_dir=state_dir)
    for status in _statuses(instance, watch=watch):
        _show(context, status, _figures(instance, status), form)


def _figures(instance: Instance, status: Status) -> dict[str, Any] | None:
    """Return what the instance's KV store says of itself; None: there is none, or it does not answer."""
    from inferplane_kvstore.asking import ask  # noqa: PLC0415  only instances with a store need it

    if status.kv_store is None or status.phase is InstancePhase.STOPPED:
        return None
    return ask(instance.state.kv_config, {"op": "stat"}, patience_s=_STORE_PATIENCE_S)


def _statuses(instance: Instance, *, watch: bool) -> Iterator[Status]:
    last = _status(instance)
    yield last
    while watch:
        time.sleep(_POLL_S)
        now = _status(instance)
        if now != last:
            yield now
        last = now


def _status(instance: Instance) -> Status:
    found = instance.status()
    if found is None:
        raise CommandError(
            f"{instance.state.status}: is missing or damaged; a runner writes it again: `inferplane up -f FILE`, "
            f"or see {instance.state.log('runner')}"
        )
    return found


def _show_all(context: Context, instances: list[Instance], form: Format) -> None:
    statuses = [(instance, instance.status()) for instance in instances]
    if form is not Format.TABLE:
        show_document({"items": [_document(status) for _, status in statuses if status]}, form)
        return
    if not instances:
        click.echo("no local instance; start one with `inferplane up -f FILE`", err=True)
        return
    rows = [
        [instance.name, status.phase.value if status else "Unknown", _ready(status), _url(status)]
        for instance, status in statuses
    ]
    show_table(context, ("name", "phase", "workers", "url"), rows)


def _ready(status: Status | None) -> str:
    if status is None:
        return ""
    return f"{sum(pool.ready for pool in status.pools)}/{sum(pool.replicas for pool in status.pools)}"


def _url(status: Status | None) -> str:
    return status.url if status and status.phase is not InstancePhase.STOPPED else ""


def _document(status: Status, figures: dict[str, Any] | None = None) -> dict[str, Any]:
    document: dict[str, Any] = status.model_dump(mode="json", by_alias=True)
    if figures is not None:
        document["kvStore"]["figures"] = figures
    return document


def _show(context: Context, status: Status, figures: dict[str, Any] | None, form: Format) -> None:
    if form is not Format.TABLE:
        show_document(_document(status, figures), form)
        return
    click.echo(f"{status.service}: {status.phase.value}{f' ({status.message})' if status.message else ''}")
    if status.url and status.phase is not InstancePhase.STOPPED:
        click.echo(f"gateway {status.url}   router {status.grpc}   models {', '.join(status.served_names)}")
    pools = [
        [pool.name, f"{pool.ready}/{pool.replicas}", str(pool.updated), f"{pool.min_replicas}..{pool.max_replicas}"]
        for pool in status.pools
    ]
    click.echo()
    show_table(context, ("pool", "ready", "up-to-date", "bounds"), pools, right={1, 2})
    if status.workers:
        _show_workers(context, status)
    if status.kv_store is not None and status.phase is not InstancePhase.STOPPED:
        _show_store(context, status.kv_store, figures)


def _show_store(context: Context, store: KVStoreStatus, figures: dict[str, Any] | None) -> None:
    click.echo(f"\n{store_view.headline(store, figures)}")
    if figures is not None:
        table = store_view.tiers(figures)
        show_table(context, table.heads, table.rows, right=table.right)


def _show_workers(context: Context, status: Status) -> None:
    workers = [
        [
            worker.name,
            worker.phase.value,
            str(sum(child.restarts for child in (worker.agent, worker.engine) if child)),
            worker.revision,
            worker.http,
            ",".join(worker.gpus),
            worker.reason,
        ]
        for worker in status.workers
    ]
    click.echo()
    heads = ("worker", "phase", "restarts", "revision", "address", "gpus", "reason")
    show_table(context, heads, workers, right={2})
