"""`status` in a cluster: the list of services, or one service whole; again whenever something changes."""

import time
from collections.abc import Callable, Iterator
from typing import Final, TypeVar

import click

from inferplane.cluster import Connection, Object
from inferplane.context import Context
from inferplane.kube import kinds, service_view
from inferplane.kube.objects import items
from inferplane.kube.picture import Picture, picture
from inferplane.output import Format, show_document, show_table
from inferplane.table import Table

_POLL_S: Final = 2.0
T = TypeVar("T")


def show_services(context: Context, connection: Connection, form: Format, *, everywhere: bool, watch: bool) -> None:
    """Show the services of a namespace, or of all.  Raises ClusterError."""
    namespace = "" if everywhere else connection.namespace
    for found in _changes(lambda: items(connection.cluster, kinds.SERVICES, namespace), watch=watch):
        _show_list(context, connection, found, form, everywhere=everywhere)


def _show_list(
    context: Context, connection: Connection, found: list[Object], form: Format, *, everywhere: bool
) -> None:
    if form is not Format.TABLE:
        show_document({"items": found}, form)
    elif found:
        table = service_view.list_table(found, context.wall(), namespaces=everywhere)
        show_table(context, table.heads, table.rows, right=table.right)
    else:
        where = "this cluster" if everywhere else f"namespace {connection.namespace} (all namespaces: -A)"
        click.echo(f"no InferenceService in {where}; begin with `kubectl apply -f FILE`", err=True)


def show_service(context: Context, connection: Connection, name: str, form: Format, *, watch: bool) -> None:
    """Show one service whole.  Raises ClusterError."""
    for found in _changes(lambda: picture(connection, name), watch=watch):
        if form is Format.TABLE:
            _show_one(context, found)
        else:
            show_document(service_view.document(found, context.wall()), form)


def _show_one(context: Context, found: Picture) -> None:
    now = context.wall()
    for line in service_view.headline(found):
        click.echo(line)
    views = service_view.pods(found, now)
    tables = (
        service_view.conditions_table(found, now),
        service_view.pools_table(found),
        service_view.pods_table(views, now),
        service_view.starts_table(views),
        service_view.events_table(found, now),
    )
    for table in tables:
        _show_table(context, table)
    for line in service_view.problems(found):
        click.echo(f"\n{line}")
    if found.hidden:
        click.echo(f"\nnot shown, since you may not list them: {', '.join(found.hidden)}")


def _show_table(context: Context, table: Table) -> None:
    if table.rows:
        click.echo()
        show_table(context, table.heads, table.rows, right=table.right)


def _changes(ask: Callable[[], T], *, watch: bool) -> Iterator[T]:
    """Give an answer, and with `watch` each one that differs from the one before."""
    last = ask()
    yield last
    while watch:
        time.sleep(_POLL_S)
        now = ask()
        if now != last:
            yield now
        last = now
