"""`diagnose`: everything that can be asked, and what is wrong first."""

from dataclasses import asdict
from pathlib import Path

import click

from inferplane.cluster import Connection
from inferplane.completing import complete_instance
from inferplane.context import Context
from inferplane.diagnosis import Finding, diagnose, healthy
from inferplane.errors import CommandError
from inferplane.examine import examine
from inferplane.instances import choose
from inferplane.options import state_dir_option
from inferplane.output import Format, output_option, show_document
from inferplane.target import Target, cluster_meant, world_options

_WRONG = "PROBLEM"


@click.command("diagnose")
@click.argument("name", required=False, shell_complete=complete_instance)
@state_dir_option
@world_options
@output_option
@click.pass_context
def command(ctx: click.Context, *, name: str | None, state_dir: Path | None, target: Target, output: str) -> None:
    """Look for what is wrong with an instance or a service; exit 1 when something is."""
    context: Context = ctx.obj
    connection = cluster_meant(context, target, name=name, state_dir=state_dir)
    found = _here(context, name, state_dir) if connection is None else _in_cluster(context, connection, name)
    findings = sorted(found, key=lambda finding: finding.ok)
    _show(context, findings, Format(output))
    if not healthy(findings):
        ctx.exit(1)


def _here(context: Context, name: str | None, state_dir: Path | None) -> list[Finding]:
    instance = choose(context, name=name, state_dir=state_dir)
    status = instance.status()
    if status is None:
        raise CommandError(f"{instance.name}: no runner ever wrote a status; see {instance.state.log('runner')}")
    return diagnose(examine(instance, status))


def _in_cluster(context: Context, connection: Connection, name: str | None) -> list[Finding]:
    from inferplane.kube import diagnosis  # noqa: PLC0415  not for local instances
    from inferplane.kube.block_indexes import compare_indexes  # noqa: PLC0415
    from inferplane.kube.facts import read_components  # noqa: PLC0415
    from inferplane.kube.picture import only_service, picture  # noqa: PLC0415

    found = picture(connection, name or only_service(connection))
    components = read_components(connection.cluster, connection.namespace)
    findings = diagnosis.diagnose(found, components, context.wall())
    return [*findings, *compare_indexes(connection, found.pods)]


def _show(context: Context, findings: list[Finding], form: Format) -> None:
    if form is not Format.TABLE:
        show_document({"healthy": healthy(findings), "findings": [asdict(finding) for finding in findings]}, form)
        return
    width = max(len(finding.check) for finding in findings)
    for finding in findings:
        mark = _mark(context, ok=finding.ok)
        click.echo(f"{mark}   {finding.check.ljust(width)}   {finding.detail}")
        if finding.fix:
            click.echo(f"{' ' * (len(_WRONG) + 6 + width)}fix: {finding.fix}")
    wrong = sum(not finding.ok for finding in findings)
    click.echo(f"\n{wrong} problem{'s' * (wrong != 1)}" if wrong else "\nnothing is wrong")


def _mark(context: Context, *, ok: bool) -> str:
    text = ("ok" if ok else _WRONG).ljust(len(_WRONG))
    return click.style(text, fg="green" if ok else "red") if context.terminal and context.colour else text
