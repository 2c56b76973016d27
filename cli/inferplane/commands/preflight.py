"""`preflight`: what a cluster lacks, before anything is installed or applied."""

from dataclasses import asdict
from pathlib import Path

import click

from inferplane.cluster import Connection
from inferplane.context import Context
from inferplane.kube.checks import Check, Level, check
from inferplane.kube.facts import ClusterFacts, gather
from inferplane.output import Format, output_option, show_document
from inferplane.target import Target, cluster_needed, cluster_options

_COLOURS = {Level.OK: "green", Level.LACKING: "red", Level.OPTIONAL: "yellow"}
_ORDER = (Level.LACKING, Level.OPTIONAL, Level.OK)


@click.command("preflight")
@click.option(
    "-f",
    "--filename",
    type=click.Path(path_type=Path, allow_dash=True),
    help="Look, too, whether what this manifest needs is there; - reads standard input.",
)
@cluster_options
@output_option
@click.pass_context
def command(ctx: click.Context, *, filename: Path | None, target: Target, output: str) -> None:
    """Say what a cluster lacks, and what to do; exit 1 when something stands in the way."""
    context: Context = ctx.obj
    connection = cluster_needed(context, target)
    facts = gather(connection, context.wall())
    found = check(facts) + (_of_file(connection, facts, filename) if filename else [])
    ordered = sorted(found, key=lambda it: _ORDER.index(it.level))
    lacking = any(it.level is Level.LACKING for it in found)
    if Format(output) is Format.TABLE:
        _show(context, connection, ordered)
    else:
        show_document({"ready": not lacking, "checks": [asdict(it) for it in ordered]}, Format(output))
    if lacking:
        ctx.exit(1)


def _of_file(connection: Connection, facts: ClusterFacts, filename: Path) -> list[Check]:
    from inferplane.kube.needs import check_file  # noqa: PLC0415  rendering is only needed for a file
    from inferplane.kube.release_classes import release_accelerators  # noqa: PLC0415
    from inferplane.manifest import read_manifest  # noqa: PLC0415
    from inferplane.rendering import rendered, unresolved  # noqa: PLC0415
    from inferplane_operator.render import RenderOptions  # noqa: PLC0415

    manifest = read_manifest(filename, for_cluster=True).within(connection.namespace)
    namespace = manifest.service.metadata.namespace
    options = RenderOptions(accelerators=release_accelerators(connection.cluster, facts.components))
    found = rendered(manifest, options, model_revision=unresolved(manifest))
    return check_file(connection.cluster, manifest, found, facts.nodes, namespace)


def _show(context: Context, connection: Connection, checks: list[Check]) -> None:
    click.echo(f"cluster {connection.server or connection.context}, namespace {connection.namespace}\n")
    width = max(len(it.name) for it in checks)
    column = max(len(level) for level in Level)
    for it in checks:
        mark = it.level.value.ljust(column)
        painted = click.style(mark, fg=_COLOURS[it.level]) if context.terminal and context.colour else mark
        click.echo(f"{painted}   {it.name.ljust(width)}   {it.detail}")
        if it.fix:
            click.echo(f"{' ' * (column + 6 + width)}fix: {it.fix}")
    lacking = sum(it.level is Level.LACKING for it in checks)
    click.echo(f"\n{lacking} lacking" if lacking else "\nnothing stands in the way")
