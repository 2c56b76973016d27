"""`explain`: why a request went where it went, and how that turned out."""

from pathlib import Path

import click

from inferplane.cluster import Connection
from inferplane.context import Context
from inferplane.decision import candidate_table, headline, notes, reason, setting
from inferplane.errors import CommandError, InvalidError
from inferplane.instances import choose
from inferplane.options import instance_options
from inferplane.outlook import outcome, outlook_table
from inferplane.output import Format, output_option, show_document, show_table
from inferplane.router_client import explain, record_document
from inferplane.table import Table
from inferplane.target import Target, cluster_meant, world_options
from inferplane_api.proto.router_pb2 import DecisionRecord

_GRPC_PORT = 9000


@click.command("explain")
@click.argument("request_id")
@instance_options
@click.option("--router", default="", help="HOST:PORT of a router's gRPC port; needed in a cluster.")
@world_options
@output_option
@click.pass_obj
def command(
    context: Context,
    *,
    request_id: str,
    name: str | None,
    state_dir: Path | None,
    router: str,
    target: Target,
    output: str,
) -> None:
    """Say why a recent request went where it went, what was predicted and what happened.

    REQUEST_ID is the x-request-id of the answer.
    """
    record = explain(router or _router(context, target, name, state_dir), request_id)
    if record is None:
        raise CommandError(
            f"the router knows no request {request_id!r}; give the x-request-id of a recent answer "
            "(old records are dropped)"
        )
    if Format(output) is not Format.TABLE:
        show_document(record_document(record), Format(output))
        return
    _show(context, record)


def _router(context: Context, target: Target, name: str | None, state_dir: Path | None) -> str:
    """Return where the instance's router answers.  Raises CommandError."""
    connection = cluster_meant(context, target, name=name, state_dir=state_dir)
    if connection is not None:
        raise InvalidError(_how_to_reach(connection))
    instance = choose(context, name=name, state_dir=state_dir)
    status = instance.status()
    if not instance.running or status is None or not status.grpc:
        raise CommandError(f"{instance.name} is not running; decisions are kept in the router's memory only")
    return status.grpc


def _how_to_reach(connection: Connection) -> str:
    """Tell the way to the routers: each keeps the decisions that it made, and only it."""
    from inferplane.kube.gateways import gateway_pods  # noqa: PLC0415

    pods = gateway_pods(connection)
    if not pods:
        return "no router runs in this cluster that you may see; see `inferplane preflight`"
    lines = [f"  kubectl -n {pod.namespace} port-forward pod/{pod.name} {_GRPC_PORT}" for pod in pods]
    return "\n".join(
        [
            "routers answer on a port inside the cluster, and each knows its own requests; forward one's port:",
            *lines,
            f"and ask it with --router 127.0.0.1:{_GRPC_PORT}",
        ]
    )


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
