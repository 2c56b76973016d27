"""The `inferplane` command: reads the environment once and hands over to click."""

import os
import sys
from pathlib import Path

from inferplane.cli import root
from inferplane.context import Context


def main() -> None:
    """Run one command; exit 0 done, 1 failed, 2 wrong usage or invalid file, 3 not ready in time."""
    context = Context(
        environment=dict(os.environ),
        working_dir=Path.cwd(),
        terminal=sys.stdout.isatty() and os.environ.get("TERM") != "dumb",
        colour=sys.stdout.isatty() and not os.environ.get("NO_COLOR"),
    )
    root(prog_name="inferplane", obj=context)


if __name__ == "__main__":
    main()
