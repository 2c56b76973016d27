"""Freezing a service: workers that die are replaced, but nothing is rolled out and nobody plans."""

from typing import Final

import click

from inferplane.context import Context
from inferplane.kube import kinds
from inferplane.kube.fields import annotation
from inferplane.kube.objects import get, merge
from inferplane.target import Target, cluster_needed
from inferplane_operator.render.names import OUR_PREFIX

FREEZE: Final = f"{OUR_PREFIX}freeze"


def set_frozen(context: Context, target: Target, name: str, *, reason: str | None) -> None:
    """Freeze a service, for a reason that is kept with it; None: let it go."""
    connection = cluster_needed(context, target)
    service = get(connection.cluster, kinds.SERVICES, connection.namespace, name)
    before = annotation(service, FREEZE)
    if before == reason:
        click.echo(f"{name} is {'not frozen' if reason is None else 'frozen already'}")
        return
    path = kinds.SERVICES.path(connection.namespace, name)
    merge(connection.cluster, path, {"metadata": {"annotations": {FREEZE: reason}}})
    click.echo(
        f"{name} goes on: what has changed meanwhile is rolled out now"
        if reason is None
        else f"{name} is frozen: workers that die are replaced, nothing else changes; `inferplane unfreeze {name}`"
    )
