"""`incident`: what happened around a moment, and what most likely caused it."""

from pathlib import Path

import click

from inferplane.completing import complete_instance
from inferplane.context import Context
from inferplane.errors import CommandError, InvalidError
from inferplane.incident_view import conclusions, document, timeline
from inferplane.instances import choose
from inferplane.moments import read_moment
from inferplane.options import Duration, state_dir_option
from inferplane.output import Format, output_option, show_document, show_table
from inferplane.target import Target, cluster_meant, world_options


@click.command("incident")
@click.argument("name", required=False, shell_complete=complete_instance)
@state_dir_option
@click.option("--at", "moment", default="now", show_default=True, help="When: 14:05, '10m ago', a date; UTC.")
@click.option("--around", type=Duration(), default=600.0, show_default="10m", help="How far to look to both sides.")
@click.option(
    "--records", type=click.Path(path_type=Path), help="A router's folder of records, instead of a local instance."
)
@world_options
@output_option
@click.pass_obj
def command(
    context: Context,
    *,
    name: str | None,
    state_dir: Path | None,
    moment: str,
    around: float,
    records: Path | None,
    target: Target,
    output: str,
) -> None:
    """Show in one timeline what happened around a moment, when objectives were missed, and the likely cause."""
    from inferplane.happenings import of_instance, of_records  # noqa: PLC0415  only here
    from inferplane_observability.incident.report import report  # noqa: PLC0415

    at = read_moment(moment, context.wall())
    if records is not None:
        known = of_records(records)
    elif cluster_meant(context, target, name=name, state_dir=state_dir) is not None:
        raise InvalidError(
            "gateways keep their records to themselves (gateway.records.enabled in the chart): copy them, "
            "`kubectl cp GATEWAY-POD:/var/cache/inferplane/records records`, then --records records"
        )
    else:
        known = of_instance(choose(context, name=name, state_dir=state_dir).state)
    if not known:
        raise CommandError("nothing was recorded; routers write when their configuration has records.folder")
    found = report(known, at=at, around_s=around)
    if Format(output) is not Format.TABLE:
        show_document(document(found), Format(output))
        return
    for line in conclusions(found):
        click.echo(line)
    table = timeline(found)
    if table.rows:
        click.echo()
        show_table(context, table.heads, table.rows, right=table.right)
