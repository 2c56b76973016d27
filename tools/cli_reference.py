"""Writes the reference of the command line from the commands themselves: docs/reference/cli.md.

What `--help` says is what the page says, so neither can be right without the other.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import click

from inferplane.cli import VERBS, root

PAGE: Final = Path(__file__).parents[1] / "docs" / "reference" / "cli.md"
_HEAD: Final = """# The command line

Made by `make generate` from the commands' own help; do not edit.
`inferplane VERB --help` prints the same.
They act on a local instance, or on a cluster where one is named (`--context`, `-n`, `--kubeconfig`) or none runs.

| exit code | means |
|---|---|
| 0 | done |
| 1 | failed |
| 2 | wrong usage, or an invalid file |
| 3 | not ready in time |
"""


def page() -> str:
    context = click.Context(root, info_name="inferplane")
    return "\n".join([_HEAD, *_sections(root, context, sorted(VERBS), 2)])


def _sections(group: click.Group, parent: click.Context, names: Iterable[str], level: int) -> Iterator[str]:
    """Yield a section for each command of a group, with those of groups among them below."""
    for name in names:
        command = group.get_command(parent, name)
        if command is None:
            raise LookupError(name)
        context = click.Context(command, info_name=name, parent=parent)
        yield _section(command, context, level)
        if isinstance(command, click.Group):
            yield from _sections(command, context, command.list_commands(context), level + 1)


def _section(command: click.Command, context: click.Context, level: int) -> str:
    title = context.command_path.removeprefix("inferplane ")
    lines = [f"{'#' * level} {title}", "", "```", _usage(command, context), "```", "", *_words(command.help or "")]
    return "\n".join([*lines, *_options(command, context), ""])


def _usage(command: click.Command, context: click.Context) -> str:
    return " ".join([context.command_path, *command.collect_usage_pieces(context)])


def _words(text: str) -> Iterator[str]:
    """Yield the help's paragraphs, one sentence a line; a listing that click is told to keep stays one."""
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        if paragraph.startswith("\b"):
            yield from ("```", *paragraph.lstrip("\b\n").splitlines(), "```", "")
        else:
            yield from (*re.sub(r"(?<=[.:]) (?=[A-Z])", "\n", " ".join(paragraph.split())).splitlines(), "")


def _options(command: click.Command, context: click.Context) -> Iterator[str]:
    options = (it for it in command.params if isinstance(it, click.Option))  # arguments speak by their usage
    records = [record for it in options if (record := it.get_help_record(context))]
    if records:
        yield "| option | means |"
        yield "|---|---|"
    for names, means in records:
        yield f"| `{_cell(names)}` | {_cell(means)} |"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def main() -> None:
    PAGE.write_text(page(), "utf-8")


if __name__ == "__main__":
    main()
