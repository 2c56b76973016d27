"""`rollback`: back to what an earlier revision's workers were made of."""

import click

from inferplane.cluster import JSON_PATCH, Connection, Object
from inferplane.completing import complete_service
from inferplane.context import Context
from inferplane.errors import InvalidError
from inferplane.freezing import FREEZE
from inferplane.kube import kinds
from inferplane.kube.ages import age
from inferplane.kube.fields import annotation, name_of, text
from inferplane.kube.objects import change, get, items, owned_by
from inferplane.kube.revisions import Revision, differences, history, reverted, to_go_back_to
from inferplane.output import Format, output_option, show_document, show_table
from inferplane.target import Target, cluster_needed, cluster_options


@click.command("rollback")
@click.argument("name", shell_complete=complete_service)
@click.option("--to", "wanted", default="", help="Revision to go back to.  [default: the last one before the current]")
@click.option("--list", "listing", is_flag=True, help="List the revisions that are kept, and change nothing.")
@click.option("--dry-run", is_flag=True, help="Say what would change, let the cluster check it, and change nothing.")
@cluster_options
@output_option
@click.pass_obj
def command(
    context: Context, *, name: str, wanted: str, listing: bool, dry_run: bool, target: Target, output: str
) -> None:
    """Go back to what the workers of an earlier revision were made of.

    Sizes, objectives and routing stay as they are.
    """
    connection = cluster_needed(context, target)
    service = get(connection.cluster, kinds.SERVICES, connection.namespace, name)
    current = text(service, "status", "revision")
    kept = _history(connection, service)
    if listing:
        _list(context, kept, service, Format(output))
        return
    earlier = to_go_back_to(kept, current, wanted)
    spec = reverted(service["spec"], earlier)
    lines = differences(service["spec"], spec)
    if Format(output) is Format.TABLE:
        _tell(name, current, earlier, lines, dry_run=dry_run)
    if lines:
        _replace(connection, service, spec, dry_run=dry_run)
    if Format(output) is not Format.TABLE:
        done = {"service": name, "from": current, "to": earlier.name, "dryRun": dry_run, "changes": lines}
        show_document(done, Format(output))
    elif lines:
        click.echo(f"{name} {'would be' if dry_run else 'is being'} rolled back to {earlier.name}")


def _history(connection: Connection, service: Object) -> list[Revision]:
    found = items(connection.cluster, kinds.CONTROLLER_REVISIONS, connection.namespace)
    return history(owned_by(found, [service]), name_of(service))


def _list(context: Context, kept: list[Revision], service: Object, form: Format) -> None:
    notes = {text(service, "status", "stableRevision"): "stable", text(service, "status", "revision"): "current"}
    if form is not Format.TABLE:
        entries = [{"revision": it.name, "created": it.created, "note": notes.get(it.name, "")} for it in kept]
        show_document({"revisions": entries}, form)
        return
    rows = [
        [
            it.name,
            age(it.created, context.wall()),
            text(it.spec, "model", "name"),
            notes.get(it.name, ""),
        ]
        for it in kept
    ]
    show_table(context, ("revision", "age", "model", "note"), rows)


def _tell(name: str, current: str, earlier: Revision, lines: list[str], *, dry_run: bool) -> None:
    click.echo(f"{name}: revision {current or 'unknown'} -> {earlier.name}{' (dry run)' if dry_run else ''}")
    for line in lines:
        click.echo(f"  {line}")
    if not lines:
        click.echo("  the spec is already as it was then; nothing to do")
        return
    click.echo("whoever applies the file again (by hand, or from a repository) undoes this: change the file, too")


def _replace(connection: Connection, service: Object, spec: Object, *, dry_run: bool) -> None:
    """Replace the spec, unless somebody has changed it meanwhile."""
    name = name_of(service)
    if annotation(service, FREEZE) is not None and not dry_run:
        raise InvalidError(f"{name} is frozen: nothing would be rolled out; run `inferplane unfreeze {name}` first")
    operations = [
        {"op": "test", "path": "/metadata/resourceVersion", "value": text(service, "metadata", "resourceVersion")},
        {"op": "replace", "path": "/spec", "value": spec},
    ]
    path = kinds.SERVICES.path(connection.namespace, name)
    change(connection.cluster, path, operations, JSON_PATCH, dry_run=dry_run)
