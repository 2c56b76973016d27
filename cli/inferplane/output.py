"""How results are shown: tables for people, JSON and YAML for programs.

Tables are plain aligned columns, as `kubectl` prints them, that `awk` can take apart; on a terminal they are the same
with colours.  Cells are never folded: a line that is too long is the terminal's to wrap.
"""

import json
from collections.abc import Collection, Mapping, Sequence
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


def show_table(
    context: Context, heads: Sequence[str], rows: Sequence[Sequence[str]], *, right: Collection[int] = ()
) -> None:
    for line in table_lines(heads, rows, right=right, colour=context.terminal and context.colour):
        click.echo(line)


def table_lines(
    heads: Sequence[str], rows: Sequence[Sequence[str]], *, right: Collection[int] = (), colour: bool = False
) -> list[str]:
    """Align columns with three spaces between them, those in `right` to the right.

    An empty cell is `-`, so that columns can be counted; the last columns are left out where they are empty throughout.
    """
    width = max((column + 1 for row in rows for column, cell in enumerate(row) if cell), default=len(heads))
    cells = [[head.upper() for head in heads[:width]], *([cell or "-" for cell in row[:width]] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(width)]
    lines: list[str] = []
    for number, row in enumerate(cells):
        padded = [
            cell.rjust(widths[column]) if column in right else cell.ljust(widths[column])
            for column, cell in enumerate(row)
        ]
        padded[-1] = padded[-1].rstrip()
        painted = [_painted(cell, head=number == 0) for cell in padded] if colour else padded
        lines.append("   ".join(painted))
    return lines


COLOURS = {
    "Ready": "green",
    "ok": "green",
    "*": "green",
    "Starting": "yellow",
    "Progressing": "yellow",
    "Pending": "yellow",
    "Draining": "cyan",
    "Stopping": "cyan",
    "Degraded": "red",
    "NotReady": "red",
    "CrashLoop": "red",
    "PROBLEM": "red",
}


def _painted(cell: str, *, head: bool) -> str:
    if head:
        return click.style(cell, bold=True)
    colour = COLOURS.get(cell.strip())
    return click.style(cell, fg=colour) if colour else cell
