"""Options that several verbs share."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from inferplane_runtime.settings import parse_duration

F = TypeVar("F", bound=Callable[..., Any])


class Duration(click.ParamType[float]):
    """`30s`, `500ms`, `10m`; the value is in seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        try:
            return parse_duration(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


state_dir_option = click.option(
    "--state-dir", type=click.Path(path_type=Path), help="Folder of the instance, where it is not the usual one."
)
name_option = click.option("--name", help="Which local instance, by its service's name; needed when there are several.")


def instance_options(function: F) -> F:
    """Add the options that say which instance is meant."""
    return name_option(state_dir_option(function))


def file_option(function: F) -> F:
    return click.option(
        "-f",
        "--filename",
        "filename",
        required=True,
        type=click.Path(path_type=Path, allow_dash=True),
        help="Manifest with an InferenceService; - reads standard input.",
    )(function)
