"""`diff`: what applying a file would do, before anybody does it.

It ends as `kubectl diff` does: 0 nothing would change, 1 something would, 2 it could not be found out.
"""

from pathlib import Path

import click

from inferplane.context import Context
from inferplane.errors import CommandError, InvalidError
from inferplane.kube.change_view import change_document, change_lines, nothing_changes
from inferplane.kube.foreseen import foresee
from inferplane.kube.preview import Preview, preview
from inferplane.manifest import read_manifest
from inferplane.options import file_option
from inferplane.output import Format, output_option, show_document
from inferplane.target import Target, cluster_needed, cluster_options
from inferplane_operator.reconcile.change import Change

_DIFFERS = 1


@click.command("diff")
@file_option
@cluster_options
@output_option
@click.pass_context
def command(ctx: click.Context, *, filename: Path, target: Target, output: str) -> None:
    """Say what applying a file would do: which Pods restart, what it takes, what is lost.

    Exit 0: nothing would change; 1: something would; 2: it could not be found out.
    """
    try:
        foreseen, previews = _foresee(ctx.obj, filename, target)
    except CommandError as error:
        raise InvalidError(error.message) from error  # whose exit code is not that of a difference
    if Format(output) is not Format.TABLE:
        show_document(change_document(foreseen, previews), Format(output))
    elif not nothing_changes(foreseen, previews):
        for line in change_lines(foreseen, previews):
            click.echo(line)
    if not nothing_changes(foreseen, previews):
        ctx.exit(_DIFFERS)


def _foresee(context: Context, filename: Path, target: Target) -> tuple[Change, list[Preview]]:
    connection = cluster_needed(context, target)
    manifest = read_manifest(filename, for_cluster=True).within(connection.namespace)
    place = connection.within(manifest.service.metadata.namespace)
    previews = [preview(place.cluster, document, place.namespace) for document in manifest.written]
    service = next(it for it in previews if it.after["kind"] == "InferenceService")
    adapters = [it for it in previews if it.after["kind"] == "LoRAAdapter"]
    return foresee(place, service, adapters, context.wall()), previews
