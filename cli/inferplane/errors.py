"""What ends a command.

CommandError            exit 1: it was tried and failed
    InvalidError        exit 2: the file or the arguments are wrong; nothing was changed
    NotReadyError       exit 3: everything was right, but it was not ready in time

Messages name the field, the problem and the fix.
"""

from typing import IO, Any

import click


class CommandError(click.ClickException):
    exit_code = 1

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"error: {self.message}", file=file, err=file is None)


class InvalidError(CommandError):
    exit_code = 2


class NotReadyError(CommandError):
    exit_code = 3
