"""`unfreeze`: rollouts and planning go on."""

import click

from inferplane.completing import complete_service
from inferplane.context import Context
from inferplane.freezing import set_frozen
from inferplane.target import Target, cluster_options


@click.command("unfreeze")
@click.argument("name", shell_complete=complete_service)
@cluster_options
@click.pass_obj
def command(context: Context, *, name: str, target: Target) -> None:
    """Let a frozen service go on: what has changed meanwhile is rolled out."""
    set_frozen(context, target, name, reason=None)
