"""`completion`: the script that makes a shell complete verbs, options and names."""

import click
from click.shell_completion import get_completion_class

from inferplane.errors import CommandError

_VARIABLE = "_INFERPLANE_COMPLETE"


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(context: click.Context, *, shell: str) -> None:
    """Print a completion script for SHELL: source <(inferplane completion bash)."""
    found = get_completion_class(shell)
    if found is None:
        raise CommandError(f"completion for {shell} is not known to this version of click; use bash, zsh or fish")
    root = context.find_root().command
    click.echo(found(root, {}, "inferplane", _VARIABLE).source())
