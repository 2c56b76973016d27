"""The `inferplane` command: reads the environment once and hands over to click."""

import os
import sys
from pathlib import Path
from typing import TextIO

import click

from inferplane.cli import root
from inferplane.context import Context


def main() -> None:
    """Run one command; exit 0 done, 1 failed, 2 wrong usage or invalid file, 3 not ready in time."""
    terminal = _is_terminal(sys.stdout)
    try:
        context = Context(
            environment=dict(os.environ),
            working_dir=Path.cwd(),
            terminal=terminal and os.environ.get("TERM") != "dumb",
            colour=terminal and not os.environ.get("NO_COLOR"),
        )
        root(prog_name="inferplane", obj=context)
    except OSError as error:  # the commands name what is theirs; a full disk or a deleted folder may show up anywhere
        click.echo(f"error: {error}", err=True)
        sys.exit(1)


def _is_terminal(stream: TextIO | None) -> bool:
    """Say whether a person reads it; a stream that the caller closed is None."""
    return stream is not None and stream.isatty()


if __name__ == "__main__":
    main()
