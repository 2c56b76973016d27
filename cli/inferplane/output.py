"""How results are shown: tables for people, JSON and YAML for programs.

On a terminal tables are drawn by rich; anywhere else they are plain aligned columns, as `kubectl` prints them, that
`awk` can take apart.
"""

import json
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

import click

from inferplane.context import Context


class Format(StrEnum):
    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


output_option = click.option(
    "-o",
    "--output",
    type=click.Choice([form.value for form in Format]),
    default=Format.TABLE.value,
    show_default=True,
    help="How to show the result.",
)


def show_document(value: Mapping[str, Any] | Sequence[Any], form: Format) -> None:
    if form is Format.JSON:
        click.echo(json.dumps(value, indent=2, ensure_ascii=False))
        return
    click.echo(yaml_text(value), nl=False)


def yaml_text(value: object) -> str:
    import yaml  # noqa: PLC0415  not every command needs it

    # The stub's own signature is partly untyped.
    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True)  # pyright: ignore[reportUnknownMemberType]


def show_table(context: Context, heads: Sequence[str], rows: Sequence[Sequence[str]], *, title: str = "") -> None:
    if context.terminal:
        _show_rich(context, heads, rows, title)
        return
    if title:
        click.echo(title)
    for line in plain_table(heads, rows):
        click.echo(line)


def plain_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Align columns with three spaces between them; an empty cell is `-` so that columns can be counted."""
    cells = [[head.upper() for head in heads], *([cell or "-" for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(heads))]
    return ["   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]


_COLOURS = {
    "Ready": "green",
    "Starting": "yellow",
    "Progressing": "yellow",
    "Pending": "yellow",
    "Draining": "cyan",
    "Stopping": "cyan",
    "Degraded": "red",
    "NotReady": "red",
    "CrashLoop": "red",
}


def _show_rich(context: Context, heads: Sequence[str], rows: Sequence[Sequence[str]], title: str) -> None:
    from rich.console import Console  # noqa: PLC0415  slow to import
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(title=title or None, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for head in heads:
        table.add_column(head, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell, style=_COLOURS.get(cell, "")) for cell in row))
    Console(no_color=not context.colour, highlight=False).print(table)
