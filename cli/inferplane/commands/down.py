"""`down`: drain and stop; what a killed runner left is ended too."""

from pathlib import Path

import click

from inferplane import runner
from inferplane.context import Context
from inferplane.errors import CommandError, NotReadyError
from inferplane.instances import Instance, choose
from inferplane.options import Duration, state_dir_option
from inferplane.progress import make_progress
from inferplane.waiting import wait_ended
from inferplane_operator.local.desired import Desired
from inferplane_operator.local.processes import end_orphans

_KILL_TIMEOUT_S = 30.0


@click.command("down")
@click.argument("name", required=False)
@state_dir_option
@click.option("--force", is_flag=True, help="Kill instead of draining.")
@click.option("--timeout", type=Duration(), default="10m", show_default=True, help="Longest wait for the drain.")
@click.pass_obj
def command(context: Context, *, name: str | None, state_dir: Path | None, force: bool, timeout: float) -> None:
    """Let streams finish, then stop every process of a local instance.  Its logs stay."""
    instance = choose(context, name=name, state_dir=state_dir)
    if not instance.running:
        _clean_up(instance)
        return
    instance.change(_stopped)
    if force:
        _kill(context, instance)
    else:
        _drain(context, instance, timeout)
    click.echo(f"{instance.name} is down")


def _stopped(current: Desired | None) -> Desired:
    return (current or Desired(manifests=[])).model_copy(update={"stopped": True})


def _clean_up(instance: Instance) -> None:
    found = end_orphans(instance.state)
    if found:
        click.echo(f"{instance.name} had no runner; ended what was left: {', '.join(found)}")
    else:
        click.echo(f"{instance.name} is not running")


def _drain(context: Context, instance: Instance, timeout_s: float) -> None:
    with make_progress(context) as progress:
        ended = wait_ended(instance, timeout_s=timeout_s, progress=progress)
    if not ended:
        raise NotReadyError(f"{instance.name} still drains after {timeout_s:g} s; wait, or `inferplane down --force`")


def _kill(context: Context, instance: Instance) -> None:
    """Two signals: the first starts the drain, the second ends it."""
    runner.ask_to_end(instance.state)
    runner.ask_to_end(instance.state)
    with make_progress(context) as progress:
        if not wait_ended(instance, timeout_s=_KILL_TIMEOUT_S, progress=progress):
            raise CommandError(f"the runner of {instance.name} does not end; see {instance.state.log('runner')}")
