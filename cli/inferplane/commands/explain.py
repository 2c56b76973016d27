"""`explain`: why a request went where it went, and how that turned out."""

from pathlib import Path

import click

from inferplane.context import Context
from inferplane.decision import candidate_table, summary_lines
from inferplane.errors import CommandError
from inferplane.instances import choose
from inferplane.options import instance_options
from inferplane.output import Format, output_option, show_document, show_table
from inferplane.router_client import explain, record_document


@click.command("explain")
@click.argument("request_id")
@instance_options
@output_option
@click.pass_obj
def command(context: Context, *, request_id: str, name: str | None, state_dir: Path | None, output: str) -> None:
    """Show the candidates of a recent request, their cost in ms, and prediction against observation.

    REQUEST_ID is the x-request-id of the answer.
    """
    instance = choose(context, name=name, state_dir=state_dir)
    status = instance.status()
    if not instance.running or status is None or not status.grpc:
        raise CommandError(f"{instance.name} is not running; decisions are kept in the router's memory only")
    record = explain(status.grpc, request_id)
    if record is None:
        raise CommandError(
            f"the router knows no request {request_id!r}; give the x-request-id of a recent answer "
            "(old records are dropped)"
        )
    if Format(output) is not Format.TABLE:
        show_document(record_document(record), Format(output))
        return
    for line in summary_lines(record):
        click.echo(line)
    heads, rows = candidate_table(record)
    show_table(context, heads, rows)
