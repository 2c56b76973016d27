"""`explain`: why a request went where it went, and how that turned out."""

from pathlib import Path

import click

from inferplane.cluster import Connection
from inferplane.context import Context
from inferplane.decision import candidate_table, headline, notes, reason, setting
from inferplane.errors import CommandError, InvalidError
from inferplane.instances import Instance, choose
from inferplane.kept_decisions import kept_decision
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
@click.option(
    "--records", type=click.Path(path_type=Path), help="A router's folder of records, instead of a running router."
)
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
    records: Path | None,
    target: Target,
    output: str,
) -> None:
    """Say why a request went where it went, what was predicted and what happened.

    REQUEST_ID is the x-request-id of the answer.  A router remembers the last requests; what a local instance has
    written down is searched for older ones.
    """
    if records is not None:
        record = kept_decision(records, request_id)
    elif router:
        record = explain(router, request_id)
    else:
        record = _here(_instance(context, target, name, state_dir), request_id)
    if record is None:
        raise CommandError(
            f"no decision of {request_id!r} is kept; give the x-request-id of a recent answer (old ones are dropped), "
            "or ask the other routers: each knows its own requests"
        )
    if Format(output) is not Format.TABLE:
        show_document(record_document(record), Format(output))
        return
    _show(context, record)


def _instance(context: Context, target: Target, name: str | None, state_dir: Path | None) -> Instance:
    """Return the instance meant.  Raises InvalidError for clusters: a router must be reached first."""
    connection = cluster_meant(context, target, name=name, state_dir=state_dir)
    if connection is not None:
        raise InvalidError(_how_to_reach(connection))
    return choose(context, name=name, state_dir=state_dir)


def _here(instance: Instance, request_id: str) -> DecisionRecord | None:
    """Ask the instance's router, then what it wrote down.  Raises CommandError."""
    status, kept = instance.status(), instance.state.records
    running = instance.running and status is not None and status.grpc
    found = explain(status.grpc, request_id) if running and status is not None else None
    if found is None and kept.is_dir():
        found = kept_decision(kept, request_id)
    if found is None and not running:
        raise CommandError(f"{instance.name} is not running, and what it wrote down has no request {request_id!r}")
    return found


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
