"""`version`: of this distribution."""

from importlib.metadata import version

import click

from inferplane.output import Format, output_option, show_document


@click.command("version")
@output_option
def command(*, output: str) -> None:
    """Print the version."""
    found = version("inferplane")
    if Format(output) is Format.TABLE:
        click.echo(f"inferplane {found}")
    else:
        show_document({"version": found}, Format(output))
