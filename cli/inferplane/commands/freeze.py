"""`freeze`: no rollout and no planning until `unfreeze`."""

import click

from inferplane.completing import complete_service
from inferplane.context import Context
from inferplane.freezing import set_frozen
from inferplane.target import Target, cluster_options


@click.command("freeze")
@click.argument("name", shell_complete=complete_service)
@click.option("--reason", default="true", help="Why; kept as the annotation's value.")
@cluster_options
@click.pass_obj
def command(context: Context, *, name: str, reason: str, target: Target) -> None:
    """Keep a service as it is: workers that die are replaced, nothing is rolled out, nobody plans."""
    set_frozen(context, target, name, reason=reason or "true")
