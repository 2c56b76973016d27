"""`dump`: everything about a service in one archive, for somebody who is to help."""

from datetime import UTC, datetime
from pathlib import Path

import click

from inferplane.completing import complete_service
from inferplane.context import Context
from inferplane.errors import CommandError
from inferplane.kube.archive import build
from inferplane.kube.picture import picture
from inferplane.output import yaml_text
from inferplane.target import Target, cluster_needed, cluster_options


@click.command("dump")
@click.argument("name", shell_complete=complete_service)
@click.option("--to", "file", type=click.Path(path_type=Path), help="The archive.  [default: NAME-TIME.tar.gz]")
@cluster_options
@click.pass_obj
def command(context: Context, *, name: str, file: Path | None, target: Target) -> None:
    """Write objects, events, conditions and logs of a service into one archive, without secrets."""
    connection = cluster_needed(context, target)
    now = context.wall()
    when = datetime.fromtimestamp(now, UTC)
    archive = build(connection, picture(connection, name), write=yaml_text, when=f"{when:%Y-%m-%dT%H:%M:%SZ}")
    path = file or context.working_dir / f"{name}-{when:%Y%m%d-%H%M%S}.tar.gz"
    try:
        archive.write(path, path.name.removesuffix(".gz").removesuffix(".tar"), now)
    except OSError as error:
        raise CommandError(f"{path}: cannot be written: {error.strerror}; choose another file with --to") from error
    click.echo(f"{path}: {len(archive.files)} files; look into its logs before you give it away")
