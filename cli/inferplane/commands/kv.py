"""`kv`: look into the KV store of a local instance, check it, empty it."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click

from inferplane.context import Context
from inferplane.errors import CommandError
from inferplane.instances import choose
from inferplane.options import instance_options
from inferplane.output import Format, output_option, show_document, show_table
from inferplane.table import Table
from inferplane_api.v1alpha1.units import format_bytes

_PATIENCE_S = 600.0
_SHOWN = 100


@click.group("kv")
def command() -> None:
    """Look into the KV store of a local instance, check it, empty it."""


def _asking(function: Callable[..., None]) -> Callable[..., None]:
    return instance_options(click.pass_obj(function))


@command.command("stat")
@output_option
@_asking
def stat(context: Context, *, name: str | None, state_dir: Path | None, output: str) -> None:
    """Show how full each tier is and what it did."""
    said = _ask(context, name, state_dir, {"op": "stat"})
    _show(context, Format(output), said, _tiers)
    if Format(output) is Format.TABLE:
        click.echo(_worth(said))


@command.command("ls")
@click.option("--limit", type=click.IntRange(1, 10_000), default=_SHOWN, show_default=True, help="Most blocks listed.")
@output_option
@_asking
def ls(context: Context, *, name: str | None, state_dir: Path | None, limit: int, output: str) -> None:
    """List blocks, those used most first."""
    said = _ask(context, name, state_dir, {"op": "list", "limit": limit})
    _show(context, Format(output), said, _blocks)


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


def _tiers(said: dict[str, Any]) -> Table:
    heads = ("TIER", "USED", "CAPACITY", "BLOCKS", "HITS", "WRITTEN", "CORRUPT", "REFUSED", "FAILED", "FETCH")
    rows: list[tuple[str, ...]] = []
    for tier in said["tiers"]:
        counts = said["counters"]["tiers"][tier["name"]]
        sizes = tuple(
            "-" if tier.get(key) is None else format_bytes(tier[key]) for key in ("usedBytes", "capacityBytes")
        )
        counts = {**counts, "refused": tier.get("refused", "-")}
        numbers = tuple(str(counts[key]) for key in ("hits", "written", "corrupt", "refused", "failed"))
        fetch = _mean(engine["blockS"].get(tier["name"]) for engine in said["engines"])
        rows.append((tier["name"], *sizes, str(tier.get("blocks", "-")), *numbers, fetch))
    return Table(heads, rows, right=frozenset(range(1, len(heads))))


def _worth(said: dict[str, Any]) -> str:
    """Say what fetching was worth: FETCH of the table is one block's time, as engines measured it."""
    computed = _mean(
        None if engine["tokenS"] is None else engine["tokenS"] * engine["blockTokens"] for engine in said["engines"]
    )
    worth = said["worth"]
    return (
        f"{worth['fetched']} blocks fetched, {worth['declined']} computed though they were there; "
        f"computing one takes {computed}"
    )


def _mean(times: Iterable[float | None]) -> str:
    known = [time for time in times if time is not None]
    return f"{1000 * sum(known) / len(known):.2f}ms" if known else "-"


def _blocks(said: dict[str, Any]) -> Table:
    rows = [
        (row["key"][:16], row["tier"], row["owner"], format_bytes(row["bytes"]), str(row["uses"]))
        for row in said["blocks"]
    ]
    return Table(("BLOCK", "TIER", "OWNER", "SIZE", "USES"), rows, right=frozenset({3, 4}))
