"""`explain`: why a request went where it went, and how that turned out."""

from pathlib import Path

import click

from inferplane.context import Context
from inferplane.decision import Table, candidate_table, headline, notes, reason, setting
from inferplane.errors import CommandError
from inferplane.instances import choose
from inferplane.options import instance_options
from inferplane.outlook import outcome, outlook_table
from inferplane.output import Format, output_option, show_document, show_table
from inferplane.router_client import explain, record_document
from inferplane_api.proto.router_pb2 import DecisionRecord


@click.command("explain")
@click.argument("request_id")
@instance_options
@output_option
@click.pass_obj
def command(context: Context, *, request_id: str, name: str | None, state_dir: Path | None, output: str) -> None:
    """Say why a recent request went where it went, what was predicted and what happened.

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
    _show(context, record)


def _show(context: Context, record: DecisionRecord) -> None:
    click.echo(headline(record))
    click.echo(setting(record))
    if not record.candidates:
        return
    click.echo(f"\n{reason(record)}\n{outcome(record)}\n")
    _show_table(context, outlook_table(record))
    click.echo("\nCandidates, cost in ms:")
    _show_table(context, candidate_table(record))
    for note in notes(record):
        click.echo(f"  {note}")


def _show_table(context: Context, table: Table) -> None:
    show_table(context, table.heads, table.rows, right=table.right)
