"""`dump`: everything about a service or an instance in one archive, for somebody who is to help."""

from datetime import UTC, datetime
from pathlib import Path

import click

from inferplane.archive import Archive
from inferplane.cluster import Connection
from inferplane.completing import complete_instance
from inferplane.context import Context
from inferplane.errors import CommandError
from inferplane.options import state_dir_option
from inferplane.output import yaml_text
from inferplane.target import Target, cluster_meant, world_options


@click.command("dump")
@click.argument("name", required=False, shell_complete=complete_instance)
@state_dir_option
@click.option("--to", "file", type=click.Path(path_type=Path), help="The archive.  [default: NAME-TIME.tar.gz]")
@world_options
@click.pass_obj
def command(context: Context, *, name: str | None, state_dir: Path | None, file: Path | None, target: Target) -> None:
    """Write objects, events, conditions and logs of a service into one archive, without secrets."""
    now = context.wall()
    when = datetime.fromtimestamp(now, UTC)
    stamp = f"{when:%Y-%m-%dT%H:%M:%SZ}"
    connection = cluster_meant(context, target, name=name, state_dir=state_dir)
    if connection is None:
        called, archive = _of_instance(context, name, state_dir, stamp)
    else:
        called, archive = _of_service(connection, name, stamp)
    path = file or context.working_dir / f"{called}-{when:%Y%m%d-%H%M%S}.tar.gz"
    try:
        archive.write(path, path.name.removesuffix(".gz").removesuffix(".tar"), now)
    except OSError as error:
        raise CommandError(f"{path}: cannot be written: {error.strerror}; choose another file with --to") from error
    click.echo(f"{path}: {len(archive.files)} files; look into its logs before you give it away")


def _of_instance(context: Context, name: str | None, state_dir: Path | None, when: str) -> tuple[str, Archive]:
    from inferplane import local_archive  # noqa: PLC0415  one of the two worlds is enough
    from inferplane.instances import choose  # noqa: PLC0415

    instance = choose(context, name=name, state_dir=state_dir)
    return instance.name, local_archive.build(instance, when=when)


def _of_service(connection: Connection, name: str | None, when: str) -> tuple[str, Archive]:
    from inferplane.kube.archive import build  # noqa: PLC0415  not for local instances
    from inferplane.kube.picture import only_service, picture  # noqa: PLC0415

    called = name or only_service(connection)
    return called, build(connection, picture(connection, called), write=yaml_text, when=when)
