"""`kv`: look into the KV store of a local instance, check it, empty it, warm it up."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from inferplane import store_view
from inferplane.commands import kv_warm
from inferplane.context import Context
from inferplane.errors import CommandError
from inferplane.instances import choose
from inferplane.options import instance_options
from inferplane.output import Format, output_option, show_document, show_table
from inferplane.table import Table

_PATIENCE_S = 600.0
_SHOWN = 100


@click.group("kv")
def command() -> None:
    """Look into the KV store of a local instance, check it, empty it, warm it up."""


def _asking(function: Callable[..., None]) -> Callable[..., None]:
    return instance_options(click.pass_obj(function))


@command.command("stat")
@output_option
@_asking
def stat(context: Context, *, name: str | None, state_dir: Path | None, output: str) -> None:
    """Show how full each tier is and what it did."""
    said = _ask(context, name, state_dir, {"op": "stat"})
    _show(context, Format(output), said, store_view.tiers)
    if Format(output) is Format.TABLE:
        click.echo(store_view.worth(said))


@command.command("ls")
@click.option("--limit", type=click.IntRange(1, 10_000), default=_SHOWN, show_default=True, help="Most blocks listed.")
@output_option
@_asking
def ls(context: Context, *, name: str | None, state_dir: Path | None, limit: int, output: str) -> None:
    """List blocks, those used most first."""
    said = _ask(context, name, state_dir, {"op": "list", "limit": limit})
    _show(context, Format(output), said, store_view.blocks)


@command.command("verify")
@_asking
def verify(context: Context, *, name: str | None, state_dir: Path | None) -> None:
    """Check every block of this machine against its checksum, and drop the bad ones."""
    said = _ask(context, name, state_dir, {"op": "verify"})
    click.echo(f"{said['checked']} blocks checked, {said['bad']} bad")
    if said["bad"]:
        raise CommandError("bad blocks were dropped; if it happens again, suspect the memory or the disk")


@command.command("purge")
@click.option("--tenant", help="Only this tenant's blocks; default: everybody's.")
@_asking
def purge(context: Context, *, name: str | None, state_dir: Path | None, tenant: str | None) -> None:
    """Forget blocks, on this machine and in the tiers below."""
    said = _ask(context, name, state_dir, {"op": "purge", "tenant": tenant})
    click.echo(f"{said['purged']} blocks forgotten")


@command.command("pin")
@click.argument("blocks", nargs=-1)
@click.option("--tenant", help="All blocks of this tenant.")
@_asking
def pin(
    context: Context, *, name: str | None, state_dir: Path | None, blocks: tuple[str, ...], tenant: str | None
) -> None:
    """Keep blocks on this machine whatever else comes; BLOCKS as `kv ls` shows them, or their beginnings."""
    said = _pin(context, name, state_dir, blocks, tenant, on=True)
    click.echo(f"{said} blocks pinned")


@command.command("unpin")
@click.argument("blocks", nargs=-1)
@click.option("--tenant", help="All blocks of this tenant.")
@_asking
def unpin(
    context: Context, *, name: str | None, state_dir: Path | None, blocks: tuple[str, ...], tenant: str | None
) -> None:
    """Let pinned blocks go when room is needed."""
    said = _pin(context, name, state_dir, blocks, tenant, on=False)
    click.echo(f"{said} blocks may go")


@command.command("drain")
@_asking
def drain(context: Context, *, name: str | None, state_dir: Path | None) -> None:
    """Copy all blocks of memory to the tiers below, used often or not, as before a machine goes."""
    said = _ask(context, name, state_dir, {"op": "drain"})
    click.echo(f"{said['below']} of {said['blocks']} blocks are in a tier below memory")


command.add_command(kv_warm.command)


def _pin(
    context: Context, name: str | None, state_dir: Path | None, blocks: tuple[str, ...], tenant: str | None, *, on: bool
) -> int:
    if not blocks and tenant is None:
        raise CommandError("no blocks are named: give some as `inferplane kv ls` shows them, or --tenant")
    message = {"op": "pin", "keys": [block.lower() for block in blocks], "tenant": tenant, "on": on}
    return int(_ask(context, name, state_dir, message)["pinned"])


def _ask(context: Context, name: str | None, state_dir: Path | None, message: dict[str, Any]) -> dict[str, Any]:
    from inferplane_kvstore.asking import ask  # noqa: PLC0415  only this verb needs it

    instance = choose(context, name=name, state_dir=state_dir)
    said = ask(instance.state.kv_config, message, patience_s=_PATIENCE_S)
    if said is None:
        raise CommandError(f"{instance.name} has no KV store that answers; name one in spec.kvStore and see its log")
    return said


def _show(context: Context, form: Format, said: dict[str, Any], table_of: Callable[[dict[str, Any]], Table]) -> None:
    if form is not Format.TABLE:
        show_document(said, form)
        return
    table = table_of(said)
    show_table(context, table.heads, table.rows, right=table.right)
