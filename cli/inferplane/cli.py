"""The verbs and where they are: a verb's module is imported when it is called, so that the others cost nothing.

`inferplane` alone, `--help` and shell completion show the table below and import none of them.
"""

from difflib import get_close_matches
from importlib import import_module
from typing import Final

import click

VERBS: Final = {
    "up": "Start a service on this machine, or bring the running one up to date.",
    "down": "Drain and stop a local instance.",
    "status": "Show services, pools and workers.",
    "top": "Show services, objectives and workers, live.",
    "logs": "Print logs of the router and the workers.",
    "scale": "Change the number of workers of a pool.",
    "explain": "Show why a request went where it went.",
    "diagnose": "Look for what is wrong.",
    "incident": "Show what happened around a moment, and the likely cause.",
    "dump": "Pack everything about a service into one archive, without secrets.",
    "preflight": "Say what a cluster lacks.",
    "render": "Print what a file stands for, without starting anything.",
    "rules": "Print recording rules and alerts for a service's objectives.",
    "diff": "Say what applying a file would do to running workers.",
    "rollback": "Go back to an earlier revision of a service.",
    "simulate": "Run a trace or a workload on a fleet in virtual time.",
    "plan": "Say how many workers a service takes for a load.",
    "calibrate": "Measure a live engine for the planner.",
    "replay": "Make recorded decisions again, and show which differ.",
    "kv": "Look into a KV store, check it, empty it.",
    "freeze": "Keep a service as it is: no rollouts, no planning.",
    "unfreeze": "Let a frozen service go on.",
    "completion": "Print a completion script for a shell.",
    "version": "Print the version.",
}


class LazyGroup(click.Group):
    """A group whose commands live in `inferplane.commands.VERB`, each as `command`."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  click's signature
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002  click's signature
        if cmd_name not in VERBS:
            return None
        command: click.Command = import_module(f"inferplane.commands.{cmd_name}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        near = [] if args[0] in VERBS else get_close_matches(args[0], VERBS, n=1)
        if near:
            ctx.fail(f"No such command {args[0]!r}; did you mean {near[0]!r}?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl(list(VERBS.items()))


@click.command(
    "inferplane", cls=LazyGroup, no_args_is_help=True, context_settings={"help_option_names": ["-h", "--help"]}
)
def root() -> None:
    """Serve language models within an SLO, on this machine or on Kubernetes."""
